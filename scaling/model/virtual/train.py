"""Train on virtual ranks: ``python -m scaling.model.virtual.train RANKS NETWORK NODE CORES [TRAIN FLAGS ...]``.

The run folder is one of ``pg_mpi.train`` with times of the virtual clock. ``scaling.model.virtual`` starts this module.
"""

import ctypes
import gc

from pg_mpi.config.command_line import parse_train
from pg_mpi.mpi import thread_pinning
from pg_mpi.mpi.signals import StopFlag
from pg_mpi.run.trainer import Trainer
from pg_mpi.train import loop
from scaling import cli
from scaling.model.exchange import NAMED, dividing_on_nodes, two_levels
from scaling.model.virtual.shared import SharedParts
from scaling.model.virtual.world import Hub


def main(argv):
    """Train until the end or a signal. Returns the exit code of ``pg_mpi.train``."""
    ranks, network, node, cores = int(argv[0]), NAMED[argv[1]], int(argv[2]), int(argv[3])
    stop = StopFlag(launched=True)  # also stops when scaling.model.virtual ends
    config, given = parse_train(argv[4:])
    thread_pinning.pin_threads()
    gc.disable()  # a collection would visit the objects of all ranks, in the time of one
    keep_memory()
    ranks_per_step = dividing_on_nodes(ranks, node)
    parts = SharedParts(ranks_per_step)

    def exchange(size):
        return two_levels(ranks, size, node, NAMED["memory"], network, ranks_per_step > 1)

    hub = Hub(ranks, exchange, crowd=ranks / cores)
    codes = hub.run(lambda world: loop(world, Trainer(world, config, given, parts), stop))
    return codes[0]


def keep_memory():
    """Keep freed memory, in one pool (glibc). Otherwise ranks are charged for page faults that others caused."""
    if mallopt := getattr(ctypes.CDLL(None), "mallopt", None):
        mallopt(-1, 2**31 - 1)  # M_TRIM_THRESHOLD
        mallopt(-3, 2**25)  # M_MMAP_THRESHOLD, the largest
        mallopt(-8, 1)  # M_ARENA_MAX


if __name__ == "__main__":
    cli.run(main)
