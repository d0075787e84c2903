"""The policy's parameters and the optimizer's state, read and written by parameter rows."""

from typing import Protocol, cast

import numpy as np
from numpy.typing import NDArray

from pg_mpi.config.settings import TrainConfig
from pg_mpi.learning.optimizer import Optimizer, forget
from pg_mpi.learning.update_buffers import UpdateBuffers
from pg_mpi.policy.interface import Network, Policy
from pg_mpi.policy.losses import clip_norm
from pg_mpi.policy.running_norm import RunningNorm


class Store(Protocol):
    """What a ``Learner`` uses of a ``ParameterStore``."""

    policy: Policy
    optimizer: Optimizer

    def open(self, rows: NDArray[np.int64], anneal: float) -> UpdateBuffers:
        """See ``ParameterStore``."""

    def step(self, buffers: UpdateBuffers, limit: float) -> float:
        """See ``ParameterStore``."""

    def close(self, buffers: UpdateBuffers, rows: NDArray[np.int64]) -> None:
        """See ``ParameterStore``."""

    def refresh(self, network: Network, rows: NDArray[np.int64]) -> None:
        """See ``ParameterStore``."""


class ParameterStore:
    """The parameters of one rank. All ranks apply the same steps, so their parameters are bitwise equal.

    Attributes:
        policy: ``close`` changes its ``theta`` and ``norm``.
        optimizer: ``close`` changes its ``state``.
    """

    def __init__(self, policy: Policy, optimizer: Optimizer, config: TrainConfig) -> None:
        self.policy, self.optimizer, self._config = policy, optimizer, config

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
        """Take an optimizer step in ``buffers`` along their gradient, clipped to the norm ``limit``.

        Returns the norm before clipping. A non-finite gradient gives no step.
        """
        gradient = buffers.mean()
        buffers.noise.see(gradient, float(buffers.buffer[-1]))
        norm = clip_norm(gradient, limit)
        if np.isfinite(norm):
            self.optimizer.step(buffers.theta, gradient, buffers.state, buffers.learning_rate)
        return norm

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
