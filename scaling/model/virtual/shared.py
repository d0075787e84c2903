"""State that virtual ranks share: the weights and what is derived from them.

An operation that is identical on every rank, such as the optimizer step, runs once: the first rank that reaches it
executes it, and every rank is charged its time. Exchanges separate reads of the weights from writes.
"""

import copy

import numpy as np

from pg_mpi.learning.parameter_store import ParameterStore
from pg_mpi.run import factory


class SharedParts:
    """``pg_mpi.run.factory`` for many ranks in one process: one policy, network and optimizer.

    Args:
        ranks_per_step: ranks of a node that divide an optimizer step.
    """

    def __init__(self, ranks_per_step):
        self._policy, self._optimizer, self._ranks_per_step = None, None, ranks_per_step

    def make_policy(self, config, env_spec):
        if self._policy is None:
            self._policy = SharedPolicy(factory.make_policy(config, env_spec))
            self._optimizer = factory.make_optimizer(config, self._policy)
        return self._policy

    def make_learner(self, config, policy, world, phases, ranks_per_step=1):
        # not the ``ranks_per_step`` of this process, in which all ranks are on one host
        store = ParameterStore(policy, self._optimizer, config, world.size > 1)
        store = SharedStore(store, world, self._ranks_per_step)
        return factory.make_learner(config, policy, world, phases, store=store)


class SharedPolicy:
    """A policy that expands to one network for all ranks."""

    def __init__(self, policy):
        self._policy, self._network = policy, policy.expand()

    def __getattr__(self, name):
        return getattr(self._policy, name)

    def expand(self):
        """Return the network with the present weights, which a checkpoint may have changed."""
        self._policy.refresh(self._network, np.arange(self._policy.rows))
        return self._network


class SharedStore:
    """A ``ParameterStore`` for all virtual ranks. The first rank to reach an operation executes it for all.

    A step is charged as if ``ranks_per_step`` ranks divided it.
    """

    def __init__(self, store, world, ranks_per_step):
        self._store, self._world, self._ranks_per_step = store, world, ranks_per_step
        self.policy, self.optimizer = store.policy, store.optimizer

    def open(self, rows, plan):
        ours = copy.copy(self._world.once(self._store.open, rows, plan))
        ours.allocate()
        return ours

    def step(self, buffers, limit):
        return self._world.once(self._store.step, buffers, limit, share=1 / self._ranks_per_step)

    def close(self, buffers, rows, seen):
        self._world.once(self._store.close, buffers, rows, seen)

    def refresh(self, network, rows):
        self._world.once(self._store.refresh, network, rows)
