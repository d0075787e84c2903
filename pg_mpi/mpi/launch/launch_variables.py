"""The launcher's environment variables, which describe the job before MPI starts."""

import contextlib
import os
import signal
from collections.abc import Iterable, Mapping
from typing import TextIO

from pg_mpi.config.batch_systems import LAUNCHERS
from pg_mpi.config.errors import UsageError

PARENT = os.getppid()  # under a launcher, its process on this host


def _first_number(names: Iterable[str | None], environ: Mapping[str, str] = os.environ) -> int | None:
    """Return the first of these environment variables that holds a number, or None."""
    return next((int(environ[name]) for name in names if name and environ.get(name, "").isdigit()), None)


def promised(environ: Mapping[str, str] = os.environ) -> int | None:
    """Number of processes that the launcher started, or None without a launcher."""
    return _first_number((launcher.size for launcher in LAUNCHERS), environ)


def is_first_process(environ: Mapping[str, str] = os.environ) -> bool:
    """True on rank 0, the only process that prints before MPI starts."""
    return not _first_number((launcher.rank for launcher in LAUNCHERS), environ)


def is_first_on_host(environ: Mapping[str, str] = os.environ) -> bool:
    """True on one process per host."""
    return not _first_number((launcher.local_rank for launcher in LAUNCHERS), environ)


def is_launched(environ: Mapping[str, str] = os.environ) -> bool:
    """True if an MPI launcher started this process."""
    return promised(environ) is not None


def end_job(environ: Mapping[str, str] = os.environ) -> None:
    """Make the launcher, if there is one and it lives, end the whole job, stopped processes included."""
    if is_launched(environ) and os.getppid() == PARENT:  # a process that lost its parent has another
        with contextlib.suppress(OSError):
            os.kill(os.getppid(), signal.SIGTERM)


def reaches_terminal(stream: TextIO, environ: Mapping[str, str] = os.environ) -> bool:
    """True if the output of this process appears on a terminal.

    Open MPI gives each rank a pseudo-terminal even when mpirun's output goes to a file, so under a launcher
    the parent's output is checked.
    """
    if not stream.isatty():
        return False
    if not is_launched(environ):
        return True
    return os.path.realpath(f"/proc/{os.getppid()}/fd/1").startswith(("/dev/pts/", "/dev/tty"))


def check_launch(size: int, expected: int | None = None, environ: Mapping[str, str] = os.environ) -> None:
    """Raise ``UsageError`` if MPI has fewer ranks than the launcher started, as when each process is its own job.

    ``expected`` (``--expect-ranks``) replaces the launcher's number and must be met exactly.
    """
    if expected is not None and expected != size:
        raise UsageError(f"--expect-ranks {expected}, but MPI gives {size}: start {expected}, as mpirun -n {expected}")
    started = promised(environ)
    if expected is None and started and size < started:
        raise UsageError(
            f"the launcher started {started} processes, but MPI sees {size}: this MPI and this launcher do not "
            "fit (try mpirun of the MPI that mpi4py uses, or srun --mpi=pmix), or give --expect-ranks"
        )
