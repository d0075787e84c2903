"""Provenance of a run: command, commit, versions, job."""

import os
import platform
import subprocess
import time
from collections.abc import Sequence
from typing import Any

from pg_mpi import __version__

#: Variables of batch systems for the job and its array task.
JOB = ("SLURM_JOB_ID", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID", "PBS_JOBID")
PACKAGES = ("numpy", "scipy", "mpi4py", "ale-py")


def provenance(argv: Sequence[str], ranks: int | None, mpi: str | None, places: Any) -> dict[str, Any]:
    """Provenance of a start, for ``config.json``: command, commit, versions, ranks and their places."""
    from importlib import metadata

    versions = {"python": platform.python_version(), "pg_mpi": __version__}
    versions.update({name: metadata.version(name) for name in PACKAGES})
    return {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "command": argv,
        "commit": commit_of_source(),
        "versions": versions,
        "ranks": ranks,
        "mpi": mpi,
        "places": places,
        "job": {key: os.environ[key] for key in JOB if key in os.environ},
    }


def commit_of_source() -> str | None:
    """The git commit of the package's source, with ``+changes`` if it was edited; None outside git.

    Set ``PG_MPI_COMMIT`` where the source has been copied from a clone.
    """
    if commit := os.environ.get("PG_MPI_COMMIT"):
        return commit
    package = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))

    def git(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["git", "-C", package, *words], capture_output=True, text=True, timeout=5, check=True)

    try:
        top, commit = git("rev-parse", "--show-toplevel", "HEAD").stdout.split("\n")[:2]
        if os.path.dirname(package) != os.path.realpath(top):
            return None  # installed inside another project's clone
        return commit + ("+changes" if git("status", "--porcelain", "-uno").stdout.strip() else "")
    except (OSError, subprocess.SubprocessError):
        return None
