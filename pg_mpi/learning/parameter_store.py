"""The policy's parameters and the optimizer's state, read and written by parameter rows."""

from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from pg_mpi.config.settings import TrainConfig
from pg_mpi.learning.advantages import Floats
from pg_mpi.learning.optimizer import Optimizer, forget
from pg_mpi.learning.update_buffers import UpdateBuffers
from pg_mpi.policy.interface import Network, Policy
from pg_mpi.policy.running_norm import RunningNorm

BLOCK = 4096


def dot(a: Floats, b: Floats) -> Any:
    """The sum of products of two vectors, of their dtype.

    All ranks must get the same bits, also on different processors. The order of a BLAS sum depends on the processor,
    so this uses numpy's own sum, although it takes more than twice as long.
    """
    return np.einsum("i,i->", a, b)


def dot_of_blocks(a: Floats, b: Floats) -> float:
    """The sum of products, added as ranks do that each have some of the blocks."""
    return float(block_sums(a, b).sum())


def block_sums(a: Floats, b: Floats) -> NDArray[np.float64]:
    """The sums of products of each block of ``BLOCK`` elements, the last perhaps shorter: float64 (blocks,)."""
    sums = np.empty(blocks_of(len(a)))
    whole = len(a) // BLOCK
    cut = whole * BLOCK
    sums[:whole] = np.einsum("ij,ij->i", a[:cut].reshape(whole, BLOCK), b[:cut].reshape(whole, BLOCK))
    sums[whole:] = np.einsum("i,i->", a[cut:], b[cut:])
    return sums


def blocks_of(size: int) -> int:
    """The number of blocks of ``size`` elements."""
    return -(-size // BLOCK)


class Store(Protocol):
    """What a ``Learner`` uses of a ``ParameterStore``."""

    policy: Policy
    optimizer: Optimizer

    def open(self, rows: NDArray[np.int64], anneal: float) -> UpdateBuffers:
        """See ``ParameterStore``."""

    def step(self, buffers: UpdateBuffers, limit: float) -> float:
        """See ``ParameterStore``."""

    def take(self, buffers: UpdateBuffers, gradient: Floats, norm: float, limit: float, part: slice) -> None:
        """See ``ParameterStore``."""

    def close(self, buffers: UpdateBuffers, rows: NDArray[np.int64]) -> None:
        """See ``ParameterStore``."""

    def refresh(self, network: Network, rows: NDArray[np.int64]) -> None:
        """See ``ParameterStore``."""


class ParameterStore:
    """The parameters of one rank. All ranks apply the same steps, so their parameters are bitwise equal.

    Args:
        divided: whether norms are to have the bits of a ``DividedStep``, as with ``--reproducible``.

    Attributes:
        policy: ``close`` changes its ``theta`` and ``norm``.
        optimizer: ``close`` changes its ``state``.
    """

    def __init__(self, policy: Policy, optimizer: Optimizer, config: TrainConfig, divided: bool = False) -> None:
        self.policy, self.optimizer, self._config = policy, optimizer, config
        self._dot = dot_of_blocks if divided or config.reproducible else dot

    def open(self, rows: NDArray[np.int64], anneal: float) -> UpdateBuffers:
        """Copy the parameters and the optimizer's state on ``rows`` into ``UpdateBuffers``.

        ``anneal``: factor on the learning rate and on the entropy bonus.
        """
        theta = self.policy.take(self.policy.theta, rows)
        state = np.stack([self.policy.take(slot, rows) for slot in self.optimizer.state])
        forget(state)
        config = self._config
        rate, ent_coef = config.learning_rate * anneal, config.ent_coef * anneal
        return UpdateBuffers(theta, state, rate, ent_coef, self.optimizer.steps, config.reproducible)

    def step(self, buffers: UpdateBuffers, limit: float) -> float:
        """Take an optimizer step in ``buffers`` along their gradient, summed over ranks. Returns its norm."""
        weight = float(buffers.buffer[-1])
        gradient = buffers.mean(buffers.buffer[:-1], weight)
        buffers.noise.see(gradient, weight, self._dot)
        norm = float(np.sqrt(self._dot(gradient, gradient)))
        self.take(buffers, gradient, norm, limit)
        return norm

    def take(
        self, buffers: UpdateBuffers, gradient: Floats, norm: float, limit: float, part: slice = slice(None)
    ) -> None:
        """Take an optimizer step on a part of ``buffers``.

        Args:
            gradient: of this part, overwritten.
            norm: of the whole gradient, which is clipped to ``limit``. There is no step if it is not finite.
        """
        if norm > limit:
            gradient *= limit / norm
        if np.isfinite(norm):
            self.optimizer.step(buffers.theta[part], gradient, buffers.state[:, part], buffers.learning_rate)

    def close(self, buffers: UpdateBuffers, rows: NDArray[np.int64]) -> None:
        """Write ``buffers`` back to ``rows``."""
        self.optimizer.rest(self.optimizer.steps - buffers.steps_before)
        self.policy.put(self.policy.theta, rows, buffers.theta)
        for slot, changed in zip(self.optimizer.state, buffers.state):
            self.policy.put(slot, rows, changed)
        if buffers.seen is not None:
            cast(RunningNorm, self.policy.norm).merge(buffers.seen)

    def refresh(self, network: Network, rows: NDArray[np.int64]) -> None:
        """Update ``network``'s copy of the parameters on ``rows``."""
        self.policy.refresh(network, rows)
