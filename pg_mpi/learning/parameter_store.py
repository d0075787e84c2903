"""The policy's parameters and the optimizer's state, read and written by parameter rows."""

from typing import cast

import numpy as np
from numpy.typing import NDArray

from pg_mpi.config.array_types import Floats
from pg_mpi.config.settings import TrainConfig
from pg_mpi.learning.dot_products import dot, dot_of_blocks
from pg_mpi.learning.optimizer import Optimizer, clip, forget
from pg_mpi.learning.reproducible_sum import FINE, refuse
from pg_mpi.learning.schedule import Plan
from pg_mpi.learning.update_buffers import UpdateBuffers
from pg_mpi.policy.interface import Network, Policy
from pg_mpi.policy.running_norm import RunningNorm


class ParameterStore:
    """The parameters of one rank. All ranks apply the same steps, so their parameters are bitwise equal.

    Args:
        shared: whether several ranks take the steps. Norms then have the same bits in whole and in divided steps.

    Attributes:
        policy: ``close`` changes its ``theta`` and ``norm``.
        optimizer: ``close`` changes its ``state``.
        exact: whether sums must not depend on their order.
    """

    def __init__(self, policy: Policy, optimizer: Optimizer, config: TrainConfig, shared: bool = False) -> None:
        self.policy, self.optimizer, self._config = policy, optimizer, config
        self.exact = config.reproducible
        self._dot = dot_of_blocks if shared or config.reproducible else dot

    def open(self, rows: NDArray[np.int64], plan: Plan) -> UpdateBuffers:
        """Copy the parameters and the optimizer's state on ``rows`` into ``UpdateBuffers``."""
        theta = self.policy.take(self.policy.theta, rows)
        state = np.stack([self.policy.take(slot, rows) for slot in self.optimizer.state])
        forget(state)
        rate, ent_coef = self._config.learning_rate * plan.rate, self._config.ent_coef * plan.anneal
        return UpdateBuffers(theta, state, rate, ent_coef, self.optimizer.steps, self.exact, plan.minibatches)

    def step(self, buffers: UpdateBuffers, limit: float) -> float:
        """Take an optimizer step in ``buffers`` along their gradient, summed over ranks. Returns its norm.

        Raises ``RunError`` if a sum is too large for ``--reproducible``.
        """
        weight = float(buffers.buffer[-1])
        if buffers.too_large(buffers.buffer[:-1]):
            refuse(FINE)
        gradient = buffers.mean(buffers.buffer[:-1], weight)
        norm = float(np.sqrt(self._dot(gradient, gradient)))
        self.step_part(buffers, gradient, norm, limit)
        return norm

    def step_part(
        self, buffers: UpdateBuffers, gradient: Floats, norm: float, limit: float, part: slice = slice(None)
    ) -> None:
        """Take an optimizer step on a part of ``buffers``.

        Args:
            gradient: of this part, overwritten.
            norm: of the whole gradient, which is clipped to ``limit``. There is no step if it is not finite.
        """
        clip(gradient, norm, limit)
        if np.isfinite(norm):
            self.optimizer.step(buffers.theta[part], gradient, buffers.state[:, part], buffers.learning_rate)

    def close(self, buffers: UpdateBuffers, rows: NDArray[np.int64], seen: Floats | None) -> None:
        """Write ``buffers`` back to ``rows``, and merge ``seen``, sums over all ranks, into the policy's norm."""
        self.optimizer.rest(self.optimizer.steps - buffers.steps_before)
        self.policy.put(self.policy.theta, rows, buffers.theta)
        for slot, changed in zip(self.optimizer.state, buffers.state):
            self.policy.put(slot, rows, changed)
        if seen is not None:
            cast(RunningNorm, self.policy.norm).merge(seen)

    def refresh(self, network: Network, rows: NDArray[np.int64]) -> None:
        """Update ``network``'s copy of the parameters on ``rows``."""
        self.policy.refresh(network, rows)
