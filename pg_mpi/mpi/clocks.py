"""Clocks of several hosts, compared."""

import statistics
import time

import numpy as np


def ahead(world, clock=time.time, rounds=1):
    """Seconds by which this rank's clock is ahead of rank 0's: the median of so many comparisons.

    Collective: every rank must call this. As near as ranks leave a barrier together: some microseconds where each has
    its core, a millisecond where they share cores.
    """
    differences = []
    for _ in range(rounds):
        world.barrier()
        now = np.array([clock()])
        differences.append(float(now[0] - world.broadcast_(now.copy())[0]))
    return statistics.median(differences)
