"""Exchange of a gradient, and the optimizer step along it: of all touched parameters on every rank, or divided.

    WholeStep     Allreduce → every rank steps all
    DividedStep   each rank of a host sums its part of the gradients → Allreduce between hosts → it steps its part

With n ranks on a host each then does 1/n of the work and of the traffic through the host's memory. Gradients,
parameters and optimizer state of an update are in memory that the ranks share, so nothing is sent within a host.
Between updates every rank has its own parameters and state.
Source: Rajbhandari et al., "ZeRO" (2020), for ranks without shared memory.
"""

from typing import Protocol, cast

import numpy as np

from pg_mpi.config.array_types import Floats
from pg_mpi.config.errors import warn
from pg_mpi.learning.dot_products import BLOCK, block_sums, blocks_of
from pg_mpi.learning.equality import require_equal
from pg_mpi.learning.parameter_store import ParameterStore
from pg_mpi.learning.phases import PhaseTimer
from pg_mpi.learning.reproducible_sum import FINE, refuse
from pg_mpi.learning.update_buffers import UpdateBuffers
from pg_mpi.mpi.interface import Collectives, Divisible


class OptimizerStep(Protocol):
    """Collective: every rank must call each method."""

    def open(self, buffers: UpdateBuffers) -> None:
        """Prepare the steps of an update. Requires that no rank still reads the previous update's buffers."""

    def step(self, buffers: UpdateBuffers, weight: float, limit: float) -> tuple[float, float] | None:
        """Sum the gradient over ranks and step along it, clipped to the norm ``limit``.

        Args:
            weight: of this rank's samples.

        Returns:
            the norm before clipping, and the weight over all ranks; None without a step if all weights are 0.
        """


def make_step(store: ParameterStore, world: Collectives, phases: PhaseTimer, ranks_per_step: int) -> OptimizerStep:
    """The step that ``ranks_per_step`` ranks divide, or where they lack shared memory, whole steps.

    Collective: every rank must call this.
    """
    if ranks_per_step > 1:
        try:
            return DividedStep(store, cast(Divisible, world), phases, ranks_per_step)
        except OSError as error:
            if world.rank == 0:
                warn(f"no shared memory for the optimizer's steps ({error}), which are slower: enlarge /dev/shm")
    return WholeStep(store, world, phases)


class WholeStep:
    """Every rank steps all touched parameters. See ``OptimizerStep`` for the methods."""

    def __init__(self, store: ParameterStore, world: Collectives, phases: PhaseTimer) -> None:
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


class DividedStep:
    """Each rank of a host steps a part of the touched parameters. See ``OptimizerStep`` for the methods.

    Collective: every rank must call the constructor.

    Args:
        ranks_per_step: number of consecutive ranks that divide the step, all on one host; a divisor of the number
            of ranks.

    Raises ``OSError`` on all ranks if a host lacks the memory.
    """

    def __init__(self, store: ParameterStore, world: Divisible, phases: PhaseTimer, ranks_per_step: int) -> None:
        self._store, self._world, self._phases = store, world, phases
        self._group, self._others = world.split(ranks_per_step)
        self._gradients, self._memory = world.on_every(self._share)

    def _share(self) -> tuple[Floats, Floats]:
        """Arrays for all parameters: a gradient of each rank, and the parameters and the optimizer's state."""
        slots, size = self._store.optimizer.state.shape
        dtype = self._store.optimizer.state.dtype
        gradients = self._group.share((self._group.size, size + 1), np.float64 if self._store.exact else dtype)
        return gradients, self._group.share((1 + slots, size), dtype)

    def open(self, buffers: UpdateBuffers) -> None:
        """Divide the touched parameters in whole blocks, and move ``buffers`` into the shared memory.

        Raises ``RuntimeError`` on all ranks if their weights differ: ranks of a host would take over each other's.
        """
        with self._phases("wait"):
            digest = np.bitwise_xor.reduce(buffers.theta.view(np.uint32))  # takes less time than a CRC
            require_equal(self._world, int(digest), "before an update")
        size, rank = buffers.theta.size, self._group.rank
        cuts = blocks_of(size) * np.arange(self._group.size + 1) // self._group.size
        self._blocks = slice(cuts[rank], cuts[rank + 1])
        cuts = np.minimum(cuts * BLOCK, size)
        self._part = slice(cuts[rank], cuts[rank + 1])
        memory = self._memory[:, :size]
        memory[0, self._part] = buffers.theta[self._part]
        memory[1:, self._part] = buffers.state[:, self._part]
        buffers.place(memory[0], memory[1:], self._gradients[rank, : size + 1])
        self._summed = np.empty_like(buffers.buffer[self._part])
        with self._phases("wait"):
            self._group.barrier()

    def step(self, buffers: UpdateBuffers, weight: float, limit: float) -> tuple[float, float] | None:
        """See ``OptimizerStep``. Raises ``RunError`` on all ranks if a sum is too large for ``--reproducible``."""
        with self._phases("wait"):  # for the last gradient
            samples = float(self._world.sum_(np.array([weight], dtype=np.float64))[0])
        if not samples:
            return None
        with self._phases("allreduce"):
            self._group.sum_rows(self._gradients, self._part, self._summed)
            self._others.sum_(self._summed)
        with self._phases("optimizer"):
            gradient = buffers.mean(self._summed, samples, self._part)
            sums = np.zeros(blocks_of(buffers.theta.size) + 1)
            sums[self._blocks] = block_sums(gradient, gradient)
            sums[-1] = buffers.too_large(self._summed)
        with self._phases("allreduce"):
            self._group.sum_(sums)
        if sums[-1]:
            refuse(FINE)
        norm = float(np.sqrt(sums[:-1].sum()))
        with self._phases("optimizer"):
            self._store.step_part(buffers, gradient, norm, limit, self._part)
        with self._phases("wait"):
            self._group.barrier()  # all parts are stepped
        return norm, samples
