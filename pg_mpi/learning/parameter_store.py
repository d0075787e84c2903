"""The policy's parameters and the optimizer's state, read and written by parameter rows."""

import numpy as np

from pg_mpi.learning.optimizer import forget
from pg_mpi.learning.update_buffers import UpdateBuffers
from pg_mpi.policy.losses import clip_norm


class ParameterStore:
    """The parameters of one rank. All ranks apply the same steps, so their parameters are bitwise equal.

    Attributes:
        policy: ``close`` changes its ``theta`` and ``norm``.
        optimizer: ``close`` changes its ``state``.
    """

    def __init__(self, policy, optimizer, config):
        self.policy, self.optimizer, self._config = policy, optimizer, config

    def open(self, rows, anneal):
        """Copy the parameters and the optimizer's state on ``rows`` into ``UpdateBuffers``.

        ``anneal``: factor on the learning rate and on the entropy bonus.
        """
        theta = self.policy.take(self.policy.theta, rows)
        state = np.stack([self.policy.take(slot, rows) for slot in self.optimizer.state])
        forget(state)
        config = self._config
        rate, ent_coef = config.learning_rate * anneal, config.ent_coef * anneal
        return UpdateBuffers(theta, state, rate, ent_coef, self.optimizer.steps, config.reproducible)

    def step(self, buffers, limit):
        """Take an optimizer step in ``buffers`` along their gradient, clipped to the norm ``limit``.

        Returns the norm before clipping. A non-finite gradient gives no step.
        """
        gradient = buffers.mean()
        norm = clip_norm(gradient, limit)
        if np.isfinite(norm):
            self.optimizer.step(buffers.theta, gradient, buffers.state, buffers.learning_rate)
        return norm

    def close(self, buffers, rows):
        """Write ``buffers`` back to ``rows``."""
        self.optimizer.rest(self.optimizer.steps - buffers.steps_before)
        self.policy.put(self.policy.theta, rows, buffers.theta)
        for slot, changed in zip(self.optimizer.state, buffers.state):
            self.policy.put(slot, rows, changed)
        if buffers.seen is not None:
            self.policy.norm.merge(buffers.seen)

    def refresh(self, network, rows):
        """Update ``network``'s copy of the parameters on ``rows``."""
        self.policy.refresh(network, rows)
