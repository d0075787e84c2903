"""Start and end of a process as a rank of a job."""

import contextlib
import os
import platform
import signal
import sys
import time
import traceback
from collections.abc import Callable
from io import StringIO, TextIOWrapper
from typing import NoReturn

from pg_mpi.config.errors import reportable
from pg_mpi.config.parsers import Parser
from pg_mpi.mpi.launch import launch_variables
from pg_mpi.mpi.signals import STOP_SIGNALS
from pg_mpi.mpi.ulfm import RankLost
from pg_mpi.mpi.world import World, connect


def run(
    main: Callable[[World, list[str]], int],
    argv: list[str],
    optional_mpi: bool = False,
    parser: Callable[[], Parser] | None = None,
    check_launch: bool = True,
) -> NoReturn:
    """Run ``main(world, argv)`` as a rank of a job and end the process with the code it returns.

    An exception that ``reportable`` accepts prints one line and exits with its ``code``; one that not all ranks raise
    ends the whole job. Any other exception, ``SystemExit`` included, prints the rank's traceback and ends the whole
    job. ``KeyboardInterrupt`` in a job of one rank exits with code 130 and prints nothing.

    Args:
        optional_mpi: as ``optional`` of ``connect``.
        parser: as of ``answer_help``, which is called first.
        check_launch: raise ``UsageError`` if MPI has fewer ranks than the launcher started.
    """
    if parser:
        answer_help(parser, argv)
    _prepare_streams()
    world = World()
    try:
        world = connect(optional_mpi)
        if check_launch:
            world.on_root(launch_variables.check_launch, world.size)
        code = main(world, argv)
    except BaseException as error:  # SystemExit and KeyboardInterrupt too: other ranks are waiting
        code = _report_error(world, error)
    _leave(world, code)


def answer_help(parser: Callable[[], Parser], argv: list[str]) -> None:
    """Print ``--help`` or ``--version``, if asked, in the launcher's first process, without MPI, and end all."""

    def answer(argv: list[str]) -> int:
        with contextlib.suppress(SystemExit):  # of argparse; ``run_alone`` ends the process
            parser().parse(argv)
        return 0

    if {"-h", "--help", "--version"} & set(argv):
        run_alone(answer, argv)


def run_alone(main: Callable[[list[str]], int], argv: list[str]) -> NoReturn:
    """Run ``main(argv)`` in the launcher's first process, without MPI, and end all with the code it returns.

    Signals end it at once, as does a reader of its output that leaves.
    """
    for number in (*STOP_SIGNALS, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    _prepare_streams()
    code = 0
    if launch_variables.is_first_process():
        try:
            code = main(argv)
        except Exception as error:
            code = _report_error(World(), error)
    _leave(World(), code)


def _prepare_streams() -> None:
    """Replace closed streams, and let standard output print any file name, as standard error does."""
    for name in ("stdout", "stderr"):
        if not getattr(sys, name):
            setattr(sys, name, StringIO())
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _report_error(world: World, error: BaseException) -> int:
    """Print an error and return its exit code, if all ranks raise it; else end the whole job."""
    line = reportable(error)
    if isinstance(error, KeyboardInterrupt) and world.size == 1:
        return 128 + signal.SIGINT
    if line is None:
        _die(world, error)
    together = world.size == 1 or line.agreed
    # ranks that MPI did not connect are all rank 0: then the launcher's number decides
    speaks = launch_variables.is_first_process() if world.size == 1 else world.rank == 0 or not together
    text = str(line)
    if not speaks and world.size == 1 and "mpi4py.MPI" not in sys.modules and launch_variables.is_first_on_host():
        time.sleep(2)  # if MPI loads nowhere, the first process prints this and ends the job
        speaks, text = True, f"{platform.node()}: {line}"
    if speaks:
        with contextlib.suppress(OSError):
            print(f"pg_mpi: error: {text}", file=sys.stderr, flush=True)
    if together:
        with contextlib.suppress(RankLost):  # before all ranks raised the error
            if world.can_shrink():
                world.agree()
            return line.code
    _abort(world, line.code)


def _die(world: World, error: BaseException) -> NoReturn:
    """Print this rank's traceback and end the whole job. Only rank 0 prints an error that all ranks raise."""
    if world.is_loss(error):
        world.abort(1)  # prints the lost ranks
    if world.rank and getattr(error, "agreed", False):
        if world.can_shrink():
            world.abort(1)
        time.sleep(2)  # rank 0 ends the job
    text = "".join(traceback.format_exception(error))
    print(f"{text}pg_mpi: rank {world.rank} of {world.size} failed: the whole job ends", file=sys.stderr, flush=True)
    code = error.code if isinstance(error, SystemExit) and isinstance(error.code, int) else 1
    _abort(world, code or 1)


def _abort(world: World, code: int) -> NoReturn:
    """End the whole job once its output is forwarded, for which MPI_Abort does not wait."""
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    time.sleep(0.1)
    world.abort(code)


def _leave(world: World, code: int) -> NoReturn:
    """Flush output, finalize MPI together with all ranks, and exit with ``code``."""
    for number in STOP_SIGNALS:  # as srun's to the last ranks, once one has exited: it would replace the exit code
        signal.signal(number, signal.SIG_IGN)
    for name in ("stdout", "stderr"):
        try:
            getattr(sys, name).flush()
        except OSError as error:  # the reader has left, or the disk is full
            setattr(sys, name, StringIO())  # Python would try it again
            if not code:
                code = fault.code if (fault := reportable(error)) else 1
                with contextlib.suppress(OSError):
                    print(f"pg_mpi: error: the output cannot be written ({error.strerror})", file=sys.stderr)
    if world.can_shrink():  # Finalize may wait for failed ranks
        with contextlib.suppress(Exception):  # a rank that has already exited looks lost
            world.barrier()
        os._exit(code)
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi and not mpi.Is_finalized():
        mpi.Finalize()  # otherwise ``python -m mpi4py`` turns an exit code into an abort
    sys.exit(code)
