"""What virtual ranks may hold in common: the weights, which are the same on all ranks between two calls."""

import copy

import numpy as np

from pg_mpi import build


class SharedParts:
    """``pg_mpi.build`` for many ranks in one process: one policy and one network, one optimizer state.

    Every rank writes the very same bits there, after all have read what they need: between the reading and the writing
    of an update lie exchanges, which all must have come to. Each rank keeps its own count of steps, and is charged for
    its own writing. An optimizer that changes its state as a whole, as RMSProp does, is not shared.
    """

    def __init__(self):
        self._policy = self._optimizer = None

    def make_policy(self, config, knowledge):
        if self._policy is None:
            self._policy = build.make_policy(config, knowledge)
            network = self._policy.expand()
            self._policy.expand = lambda: self._up_to_date(network)
        return self._policy

    def _up_to_date(self, network):
        """The network all ranks play with; a checkpoint may have changed the weights since it was made."""
        self._policy.refresh(network, np.arange(self._policy.rows))
        return network

    def make_optimizer(self, config, policy):
        if self._optimizer is None:
            self._optimizer = build.make_optimizer(config, policy)
        return copy.copy(self._optimizer)


def parts_for(config):
    """How the virtual ranks of a run with these settings get their parts."""
    return build if config.method == "reinforce" else SharedParts()
