"""A process as a rank of a job: how it starts, and how it ends together with the others, whatever happens."""

import contextlib
import os
import signal
import sys
import time
import traceback

from pg_mpi.config.errors import RunError, UsageError
from pg_mpi.mpi.launch import launch_env
from pg_mpi.mpi.world import World, connect


def run(main, argv, optional_mpi=False, parser=None):
    """Run ``main(world, argv)`` as a rank of a job and end the process with the code it returns.

    An error that all ranks raise together ends them in order, with one line. Anything else that leaves
    ``main`` on one rank, ``sys.exit`` included, prints that rank's traceback and ends the whole job.

    ``parser``: makes the command line's parser, for ``--help``, which needs no MPI, and one answer is enough.
    """
    if parser and {"-h", "--help"} & set(argv):
        if launch_env.is_first_process():
            parser().parse(argv)
        sys.exit(0)
    world = None
    try:
        world = connect(optional_mpi)
        code = main(world, argv)
    except (UsageError, RunError) as error:
        code = 2 if isinstance(error, UsageError) else 1
        together = world is None or world.size == 1 or getattr(error, "agreed", False)
        # alone where a launcher promised more, every process is a rank 0: the launcher knows the first
        speaks = launch_env.is_first_process() if world is None or world.size == 1 else world.rank == 0 or not together
        if speaks:
            print(f"pg_mpi: error: {error}", file=sys.stderr, flush=True)
        if not together or not _all_know(world):
            world.abort(code)
    except BaseException as error:  # SystemExit and KeyboardInterrupt too: other ranks are waiting
        _die(world, error)
    _leave(world, code)


def _all_know(world):
    """Whether an error that all ranks should raise together has reached all. Collective."""
    try:
        if world and world.can_shrink():
            world.agree()
        return True
    except Exception as error:
        if world.is_loss(error):
            return False
        raise


def _die(world, error):
    """Print this rank's traceback and end the whole job; rank 0 speaks for an error that all ranks share."""
    rank, size = (world.rank, world.size) if world else (0, 1)
    if world and world.is_loss(error):
        world.abort(1)  # which says who was lost
    if rank and getattr(error, "agreed", False):
        if world.can_shrink():
            world.abort(1)
        time.sleep(2)  # rank 0 is about to end this
    text = "".join(traceback.format_exception(error))
    sys.stdout.flush()
    print(f"{text}pg_mpi: rank {rank} of {size} failed: the whole job ends", file=sys.stderr, flush=True)
    time.sleep(0.1)  # a launcher forwards output in its own time, and MPI_Abort does not wait for it
    code = error.code if isinstance(error, SystemExit) and isinstance(error.code, int) else 1
    (world or World()).abort(code or 1)


def _leave(world, code):
    """Flush, finalize MPI while every rank is here, and exit with ``code``."""
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # a late one must not kill what is already leaving
    sys.stdout.flush()
    sys.stderr.flush()
    if world and world.can_shrink():  # Finalize may wait for ranks that are gone
        with contextlib.suppress(Exception):  # one that is quicker looks lost
            world.barrier()
        os._exit(code)
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi and not mpi.Is_finalized():
        mpi.Finalize()  # or ``python -m mpi4py`` turns a code into an abort
    sys.exit(code)
