"""What virtual ranks hold in common: the weights and all that is made of them, which are the same on every rank.

What every rank does alike to them, above all the step of the optimizer, the first that comes to it does, and it costs
all. Between its reading and its writing of the weights lie exchanges, which all ranks must have come to.
"""

import copy

import numpy as np

from pg_mpi.learning.learner import Learner
from pg_mpi.run import factory


class SharedParts:
    """``pg_mpi.run.factory`` for many ranks in one process: one policy and one network, one optimizer and its state."""

    def __init__(self):
        self._policy = self._optimizer = None

    def make_policy(self, config, env_spec):
        if self._policy is None:
            self._policy = factory.make_policy(config, env_spec)
            network = self._policy.expand()
            self._policy.expand = lambda: self._up_to_date(network)
            self._optimizer = factory.make_optimizer(config, self._policy)
        return self._policy

    def _up_to_date(self, network):
        """The network all ranks play with; a checkpoint may have changed the weights since it was made."""
        self._policy.refresh(network, np.arange(self._policy.rows))
        return network

    def make_learner(self, config, policy, world, phases):
        return SharedLearner(policy, self._optimizer, config, world, phases)


class SharedLearner(Learner):
    """A ``Learner`` whose weights, optimizer and sessions are those of all virtual ranks, but for the gradient."""

    def refresh(self, network):
        self._world.once(super().refresh, network)

    def _open(self, rows, anneal):
        ours = copy.copy(self._world.once(super()._open, rows, anneal))
        ours.clear()
        return ours

    def _apply(self, buffers, limit):
        return self._world.once(super()._apply, buffers, limit)

    def _close(self, buffers, rows):
        self._world.once(super()._close, buffers, rows)
