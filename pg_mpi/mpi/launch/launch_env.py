"""What a launcher says about the job, in the environment: known before MPI has started."""

import contextlib
import os
import signal

from pg_mpi.config.errors import UsageError

#: Where launchers say how many ranks they started, the most specific first, and which rank this is.
PROMISES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS")
LOCAL_NUMBERS = ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID")
RANK_NUMBERS = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID")


def _first_number(names, environ=os.environ):
    """The first of some environment variables that holds a number, or None."""
    for name in names:
        if environ.get(name, "").isdigit():
            return int(environ[name])
    return None


def promised(environ=os.environ):
    """How many processes a launcher says it started, or None."""
    return _first_number(PROMISES, environ)


def is_first_process(environ=os.environ):
    """True on the process that may print before MPI has started."""
    return not _first_number(RANK_NUMBERS, environ)


def is_first_on_host(environ=os.environ):
    """True on one process of each host."""
    return not _first_number(LOCAL_NUMBERS, environ)


def is_launched(environ=os.environ):
    """True if a launcher of several processes started this one."""
    return promised(environ) is not None


def end_job(environ=os.environ):
    """Have the launcher end what it started, stopped processes too. Harmless where there is none."""
    if is_launched(environ):
        with contextlib.suppress(OSError):
            os.kill(os.getppid(), signal.SIGTERM)


def reaches_terminal(stream, environ=os.environ):
    """True if what this process prints is seen on a terminal.

    Open MPI gives each rank a pseudo-terminal even when mpirun's own output goes to a file, so under a
    launcher it is the parent's output that counts.
    """
    if not stream.isatty():
        return False
    if not is_launched(environ):
        return True
    try:
        return os.readlink(f"/proc/{os.getppid()}/fd/1").startswith(("/dev/pts/", "/dev/tty"))
    except OSError:
        return False


def check_launch(size, expected=None, environ=os.environ):
    """Refuse a world smaller than its launcher promised: N silent jobs of one rank each.

    Raises ``UsageError``. ``expected`` (``--expect-ranks``) overrides the launcher's word.
    """
    if expected is not None and expected != size:
        raise UsageError(f"--expect-ranks {expected}, but MPI gives {size}: check the launcher")
    started = promised(environ)
    if expected is None and started and size < started:
        raise UsageError(
            f"the launcher started {started} processes, but MPI sees {size}: this MPI and this launcher do not "
            "fit (try mpirun of the MPI that mpi4py uses, or srun --mpi=pmix), or give --expect-ranks"
        )
