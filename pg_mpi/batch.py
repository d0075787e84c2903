"""Trajectories → the samples of one update, in arrays: sparse observations on the parameter rows, and advantages."""

import numpy as np
from scipy.sparse import csr_matrix

from pg_mpi.agent.advantages import discounted_returns, generalised_advantages, standardise
from pg_mpi.trajectory import Trajectory


class Batch:
    """This rank's samples of one update, the envs one after another. Rewards below 0 count ``loss_weight`` times.

    Attributes:
        x: the observations on the policy's parameter rows, csr (n * ties, rows).
        actions: int64 (n,).
        log_probs: (n,) of the policy's dtype, of the actions when they were drawn.
        values: (n,) of the policy's dtype, the value of each state by the newest network that saw it.
        advantages, targets: (n,) of the policy's dtype, by ``estimate``.
        envs: how many envs played.
    """

    def __init__(self, trajectories, policy, loss_weight=1.0):
        dtype = policy.theta.dtype
        self.envs = len(trajectories)
        self._trajectories = trajectories = trajectories or [Trajectory()]  # no sample: empty arrays
        observed, counts = (np.concatenate([getattr(t, name) for t in trajectories]) for name in ("observed", "counts"))
        self.x = projected(policy, observed, counts)
        self.actions = np.concatenate([t.actions for t in trajectories])
        self.log_probs = np.concatenate([t.log_probs for t in trajectories]).astype(dtype)
        self.values = np.concatenate([t.values for t in trajectories]).astype(dtype)
        self._rewards = [weighted(t.rewards, loss_weight) for t in trajectories]

    def estimate(self, config):
        """Set the advantages, and the targets of the values, from the values as they are now.

        Before each pass over the samples, so that it learns from what the pass before has learnt of the values.
        Source: Andrychowicz et al., "What Matters in On-Policy Reinforcement Learning?" (2020).
        """
        cuts = np.cumsum([t.length for t in self._trajectories])[:-1]
        envs = zip(self._trajectories, self._rewards, np.split(self.values, cuts))
        advantages = np.concatenate([_advantages(t, rewards, values, config) for t, rewards, values in envs])
        self.targets = (advantages + self.values).astype(self.values.dtype)
        self.advantages = advantages.astype(self.values.dtype)


def projected(policy, observed, counts):
    """Observations, the active inputs of all and how many each has, on the parameter rows: csr (n * ties, rows)."""
    starts = np.append(0, np.cumsum(counts))
    ones, shape = np.ones(len(observed), dtype=policy.theta.dtype), (len(counts), policy.ties[0].shape[0])
    return policy.project(csr_matrix((ones, observed, starts), shape=shape))


def weighted(rewards, loss_weight):
    """The rewards that are learned from: those below 0 count ``loss_weight`` times."""
    return np.where(rewards < 0, loss_weight, 1.0) * rewards


def _advantages(t, rewards, values, config):
    """The advantage of each step of one env, a ``Trajectory``: float64 (length,)."""
    if config.method == "clipped":
        return generalised_advantages(rewards, values, t.ends, t.last_value, config.gamma, config.gae_lambda)
    returns = discounted_returns(rewards, t.ends, config.gamma)
    games = np.split(returns, [cut for cut in t.cuts if cut < t.length])  # each is standardised by itself
    return np.concatenate([standardise(game) for game in games if len(game)] or [returns])
