"""A rank of many without the others."""

import numpy as np

from pg_mpi.mpi.world import World


class Alone(World):
    """A rank that stands for all of ``size`` ranks. Nothing is sent, and no rank waits.

    Its sums are its own times the number of ranks, so minibatch sizes and means stay correct. Other collective methods
    fail, because there is no communicator.
    """

    def __init__(self, rank, size):
        super().__init__()
        self.rank, self.size = rank, size

    def sum_(self, array):
        array *= self.size
        return array

    def max_(self, array):
        return array

    def merge_(self, array, function):
        return array

    def any(self, *flags):
        return list(map(bool, flags))

    def barrier(self):
        pass

    def gather_all(self, item):
        return [item] * self.size

    def sum_rows(self, rows, part, out):
        return np.multiply(rows[self.rank, part], self.size, out=out)
