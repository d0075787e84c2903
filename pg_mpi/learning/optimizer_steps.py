"""Exchange of a gradient, and the optimizer step along it: of all touched parameters on every rank, or divided.

    WholeStep     Allreduce → every rank steps all
    DividedStep   Reduce-scatter within a group of ranks, Allreduce between the groups → each rank of the group steps
                  its part → Allgather within the group

In a group of n ranks each rank then does 1/n of the work and of the traffic through the memory that the ranks of a node
share. The optimizer's state is gathered once per update, so that every rank has all of it.
Source: Rajbhandari et al., "ZeRO" (2020), whose ranks also keep only their part of the state.
"""

from typing import Protocol

import numpy as np

from pg_mpi.learning.dot_products import BLOCK, block_sums, blocks_of
from pg_mpi.learning.parameter_store import ParameterStore
from pg_mpi.learning.phases import Phases
from pg_mpi.learning.reproducible_sum import FINE, refuse
from pg_mpi.learning.update_buffers import UpdateBuffers
from pg_mpi.mpi.interface import Collectives, Divisible


class OptimizerStep(Protocol):
    """Collective: every rank must call each method."""

    def open(self, buffers: UpdateBuffers) -> None:
        """Prepare the steps of an update."""

    def step(self, buffers: UpdateBuffers, weight: float, limit: float) -> tuple[float, float] | None:
        """Sum the gradient over ranks and step along it, clipped to the norm ``limit``.

        Args:
            weight: of this rank's samples.

        Returns:
            the norm before clipping, and the weight over all ranks; None without a step if all weights are 0.
        """

    def close(self, buffers: UpdateBuffers) -> None:
        """Make ``buffers`` equal on all ranks after the last step of an update."""


class WholeStep:
    """Every rank steps all touched parameters. See ``OptimizerStep`` for the methods."""

    def __init__(self, store: ParameterStore, world: Collectives, phases: Phases) -> None:
        self._store, self._world, self._phases = store, world, phases

    def open(self, buffers: UpdateBuffers) -> None:
        """Do nothing."""

    def step(self, buffers: UpdateBuffers, weight: float, limit: float) -> tuple[float, float] | None:
        """See ``OptimizerStep``. The weight is the last element of the buffer, exact for integers below 2**24."""
        buffers.buffer[-1] = weight
        with self._phases("wait"):
            self._world.barrier()
        with self._phases("allreduce"):
            self._world.sum_(buffers.buffer)
        if buffers.buffer[-1] == 0:
            return None
        with self._phases("optimizer"):
            return self._store.step(buffers, limit), float(buffers.buffer[-1])

    def close(self, buffers: UpdateBuffers) -> None:
        """Do nothing: all ranks took the same steps."""


class DividedStep:
    """Each rank of a group steps a part of the touched parameters. See ``OptimizerStep`` for the methods.

    Args:
        group: number of consecutive ranks that divide the step; it divides the number of ranks.
    """

    def __init__(self, store: ParameterStore, world: Divisible, phases: Phases, group: int) -> None:
        self._store, self._world, self._phases, self._each = store, world, phases, group
        self._group, self._others = world.split(group)

    def open(self, buffers: UpdateBuffers) -> None:
        """Divide the touched parameters in whole blocks."""
        blocks, rank = blocks_of(buffers.theta.size), self._group.rank
        cuts = blocks * np.arange(self._each + 1) // self._each
        self._blocks, self._own_blocks = blocks, slice(cuts[rank], cuts[rank + 1])
        cuts = np.minimum(cuts * BLOCK, buffers.theta.size)
        self._counts, self._part = np.diff(cuts), slice(cuts[rank], cuts[rank + 1])
        self._summed = np.empty(self._counts[rank], buffers.buffer.dtype)

    def step(self, buffers: UpdateBuffers, weight: float, limit: float) -> tuple[float, float] | None:
        """See ``OptimizerStep``. Raises ``RunError`` on all ranks if a sum is too large for ``--reproducible``."""
        with self._phases("wait"):  # for the last rank
            samples = float(self._world.sum_(np.array([weight], dtype=np.float64))[0])
        if not samples:
            return None
        with self._phases("allreduce"):
            self._group.sum_parts(buffers.buffer[:-1], self._summed, self._counts)
            self._others.sum_(self._summed)
        with self._phases("optimizer"):
            gradient = buffers.mean(self._summed, samples, self._part)
            sums = np.zeros(self._blocks + 1)
            sums[self._own_blocks] = block_sums(gradient, gradient)
            sums[-1] = buffers.too_large(self._summed)
        with self._phases("allreduce"):
            self._group.sum_(sums)
        if sums[-1]:
            refuse(FINE)
        norm = float(np.sqrt(sums[:-1].sum()))
        with self._phases("optimizer"):
            self._store.step_part(buffers, gradient, norm, limit, self._part)
        with self._phases("allreduce"):
            self._group.gather_parts_(buffers.theta, self._counts)
        return norm, samples

    def close(self, buffers: UpdateBuffers) -> None:
        """Gather the optimizer's state."""
        with self._phases("allreduce"):
            for slot in buffers.state:
                self._group.gather_parts_(slot, self._counts)
