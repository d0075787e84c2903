"""The run folder: its lock, ``config.json``, ``metrics.jsonl``, checkpoints and the DONE mark. Rank 0 only."""

import contextlib
import errno
import fcntl
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO, TextIO

from pg_mpi import __version__
from pg_mpi.config.errors import RunError, UsageError

LOCK_PATIENCE = 10.0  # seconds: the ranks of a killed job take a moment to end

#: Variables of batch systems for the job and its array task.
JOB = ("SLURM_JOB_ID", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID", "PBS_JOBID")


class RunFolder:
    """A run's folder, locked for this process from ``open`` until the process ends.

    Attributes:
        path: the folder. A copy of the object on another rank does not hold the lock.
        checkpoints: the folder of its checkpoints.
    """

    def __init__(self, path: str) -> None:
        self._lock: Any
        self.path, self._lock = path, None
        self.checkpoints = os.path.join(path, "checkpoints")

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_lock": None}

    def file(self, name: str) -> str:
        """The path of a file in the folder."""
        return os.path.join(self.path, name)

    def make(self, name: str) -> str:
        """Make a folder in the folder, if there is none; returns its path."""
        os.makedirs(self.file(name), exist_ok=True)
        return self.file(name)

    def open(self) -> None:
        """Make the folder and lock it. Raises ``UsageError`` if it cannot be written or is in use.

        The kernel releases the lock when the process ends, so there are no stale locks.
        """
        try:
            os.makedirs(self.path, exist_ok=True)
            self._lock = open(self.file("lock"), "a+", encoding="utf-8")  # noqa: SIM115 held until the end
        except OSError as error:
            raise UsageError(
                f"the run folder {self.path} cannot be written ({error.strerror}): give another --run-dir"
            ) from None
        self._take_lock()
        self._remove_halves()
        with contextlib.suppress(OSError):  # a full disk: the lock holds without its owner's name
            self._lock.truncate(0)
            self._lock.write(f"{platform.node()} process {os.getpid()}\n")
            self._lock.flush()

    def _remove_halves(self) -> None:
        """Remove the temporary files of killed trainers."""
        for folder in (self.path, self.checkpoints):
            with contextlib.suppress(OSError):
                for name in os.listdir(folder):
                    if name.endswith(".tmp"):
                        os.remove(os.path.join(folder, name))

    def _take_lock(self) -> None:
        deadline = time.monotonic() + LOCK_PATIENCE
        announced = False
        while True:
            try:
                return fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                    return None  # a file system without locks
            if not announced and time.monotonic() > deadline - LOCK_PATIENCE + 1:
                announced = True
                print(f"pg_mpi: the run folder {self.path} is in use: waiting", file=sys.stderr, flush=True)
            if time.monotonic() > deadline:
                self._lock.seek(0)
                holder = self._lock.read().strip() or "another process"
                raise UsageError(
                    f"the run folder {self.path} is in use by {holder}: stop that trainer or give another --run-dir"
                )
            time.sleep(0.1)

    def write_done(self, facts: Mapping[str, Any]) -> None:
        """Mark the run as finished."""
        write_json(self.file("DONE"), facts)

    def reopen(self) -> bool:
        """Remove the DONE mark, because a larger budget continues the run; returns whether there was one."""
        there = os.path.exists(self.file("DONE"))
        if there:
            os.remove(self.file("DONE"))
        return there

    def begin(self, settings: Mapping[str, Any], facts: Mapping[str, Any]) -> int:
        """Write ``config.json`` with this start added; returns the number of earlier starts."""
        starts = self.starts()
        write_json(self.file("config.json"), {"settings": settings, "starts": [*starts, facts]})
        return len(starts)

    def starts(self) -> list[dict[str, Any]]:
        """The facts of the folder's starts so far."""
        try:
            with open(self.file("config.json"), encoding="utf-8") as file:
                return [dict(start) for start in json.load(file)["starts"]]
        except (OSError, ValueError, KeyError, TypeError):
            return []

    def idle_starts(self, env_steps: int) -> int:
        """Number of last starts in a row that began at ``env_steps``, the current step, without finishing."""
        if os.path.exists(self.file("DONE")):
            return 0
        idle = 0
        for start in reversed(self.starts()):
            if start.get("env_steps") != env_steps:
                break
            idle += 1
            if start.get("was_done"):  # the starts before it finished
                break
        return idle


def take_lock(folder: str, name: str) -> TextIO | None:
    """Lock the file ``name`` of a folder until it is closed or the process ends; None if another holds it.

    Raises ``UsageError`` on a file system without locks.
    """
    file = open(os.path.join(folder, name), "a+", encoding="utf-8")  # noqa: SIM115 held on
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return file
    except OSError as error:
        file.close()
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return None
        raise UsageError(f"{folder} is on a file system without locks ({error.strerror}): use another folder") from None


def output_of(folder: str | None) -> TextIO:
    """Open a folder's output.txt to append to; without a folder, ``os.devnull``."""
    return open(os.path.join(folder, "output.txt") if folder else os.devnull, "a", encoding="utf-8")


@contextlib.contextmanager
def writing(path: str) -> Iterator[None]:
    """Context that raises a one-line ``RunError`` if ``path`` cannot be written."""
    try:
        yield
    except OSError as error:
        raise RunError(
            f"{path} cannot be written ({error.strerror}): fix that and run the same command again to resume from "
            "the newest checkpoint"
        ) from None


def write_json(path: str, content: Any, indent: int | None = 1) -> None:
    """Write JSON atomically: a reader sees the old file or the new one."""
    write_text(path, json.dumps(content, indent=indent) + "\n")


def write_text(path: str, text: str) -> None:
    """Write UTF-8 text atomically."""
    with replacing(path) as file:
        file.write(text.encode())


@contextlib.contextmanager
def replacing(path: str) -> Iterator[BinaryIO]:
    """Context with a binary file that becomes ``path`` atomically: temporary, fsync, ``os.replace``."""
    temporary = f"{path}.{os.getpid()}.tmp"  # another process may write the same file
    try:
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.remove(temporary)
        raise


def provenance(argv: Sequence[str], ranks: int | None, mpi: str | None, places: Any) -> dict[str, Any]:
    """Provenance of a start, for ``config.json``: command, commit, versions, ranks and their places."""
    from importlib import metadata

    names = ("numpy", "scipy", "mpi4py", "ale-py")
    versions = {"python": platform.python_version(), "pg_mpi": __version__}
    versions.update({name: metadata.version(name) for name in names})
    return {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "command": argv,
        "commit": _commit(),
        "versions": versions,
        "ranks": ranks,
        "mpi": mpi,
        "places": places,
        "job": {key: os.environ[key] for key in JOB if key in os.environ},
    }


def _commit() -> str | None:
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
