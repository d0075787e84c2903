"""Provenance of a run: command, commit, versions, job."""

import contextlib
import os
import platform
import shlex
import subprocess
import time
from collections.abc import Sequence
from typing import Any

from pg_mpi import __version__
from pg_mpi.config.batch_systems import job_facts

PACKAGES = ("numpy", "scipy", "mpi4py", "ale-py", "gymnasium")


def provenance(argv: Sequence[str], ranks: int | None, mpi: str | None, places: Any) -> dict[str, Any]:
    """Provenance of a start, for ``config.json``: command, commit, versions, ranks and their places."""
    return facts_of(argv) | {"ranks": ranks, "mpi": mpi, "places": places, "job": job_facts()}


def utc() -> str:
    """The time now, in UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def command_line(module: str, argv: Sequence[str]) -> str:
    """The command ``python -m module``, or of a script, as results record it."""
    return shlex.join(["python", *([] if module.endswith(".py") else ["-m"]), module, *argv])


def facts_of(command: str | Sequence[str]) -> dict[str, Any]:
    """Provenance of a result of ``command``: command, commit, time and versions."""
    made = {"commit": commit_of_source(), "time": utc(), "versions": {"cpu": cpu(), **versions()}}
    return {"command": command, **made}


def versions() -> dict[str, str]:
    """Versions of Python, this package and the packages that it needs."""
    from importlib import metadata

    found = {"python": platform.python_version(), "pg_mpi": __version__}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "missing"
    return found


def cpu() -> str:
    """The kind of this machine's processor, as its kernel names it."""
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def changes(before: Any, now: dict[str, Any]) -> list[str]:
    """What may change bits between two starts, ``provenance`` of each: lines such as ``numpy 2.1.0, now 2.2.0``."""
    found = []
    for name, value in {**now["versions"], "MPI": now["mpi"]}.items():
        with contextlib.suppress(TypeError, KeyError):  # malformed: nothing is known
            known = before["mpi"] if name == "MPI" else before["versions"][name]
            if isinstance(known, str) and known != value:
                found.append(f"{name} {known}, now {value}")
    return found


def commit_of_source() -> str | None:
    """The git commit of the package's source, with ``+changes`` if it was edited; None outside git.

    Set ``PG_MPI_COMMIT`` where the source has been copied from a clone.
    """
    if commit := os.environ.get("PG_MPI_COMMIT"):
        return commit
    package = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))

    def git(*words: str) -> subprocess.CompletedProcess[str]:
        line = ["git", "-C", package, *words]
        return subprocess.run(line, capture_output=True, text=True, errors="surrogateescape", timeout=5, check=True)

    try:
        top, commit = git("rev-parse", "--show-toplevel", "HEAD").stdout.split("\n")[:2]
        if os.path.dirname(package) != os.path.realpath(top):
            return None  # installed inside another project's clone
        return commit + ("+changes" if git("status", "--porcelain", "-uno").stdout.strip() else "")
    except (OSError, subprocess.SubprocessError):
        return None
