"""Clock offsets between hosts."""

import statistics
from collections.abc import Callable

import numpy as np

from pg_mpi.mpi.interface import Collectives


def ahead(world: Collectives, clock: Callable[[], float], rounds: int) -> float:
    """Seconds by which this rank's clock is ahead of rank 0's: the median of ``rounds`` comparisons.

    Collective: every rank must call this. The error is the time between ranks leaving a barrier: some microseconds
    if each rank has its own core, a millisecond if ranks share cores.
    """
    differences = []
    for _ in range(rounds):
        world.barrier()
        now = np.array([clock()])
        differences.append(float(now[0] - world.broadcast_(now.copy())[0]))
    return statistics.median(differences)
