"""Trajectories → the samples of one update, in arrays: observations as the policy takes them, and advantages."""

import numpy as np

from pg_mpi.learning.advantages import discounted_returns, generalised_advantages, standardise
from pg_mpi.learning.trajectory import Trajectory


class Batch:
    """This rank's samples of one update, the envs one after another.

    Args:
        rewards: the kind of ``learned``.

    Attributes:
        x: the observations as the policy takes them, such as csr (n, rows) on its parameter rows.
        actions: int64 (n,), or float (n, d).
        log_probs: (n,) of the policy's dtype, of the actions when they were drawn.
        values: (n,) of the policy's dtype, the value of each state by the newest network that saw it.
        advantages, targets: (n,) of the policy's dtype, by ``estimate``.
        envs: how many envs played.
        rewarded: how many samples the game rewarded.
    """

    def __init__(self, trajectories, policy, rewards="raw"):
        dtype = policy.theta.dtype
        self.envs = len(trajectories)
        self._trajectories = trajectories = trajectories or [Trajectory()]  # no sample: empty arrays
        self.x = policy.batch(trajectories)
        lived = [t for t in trajectories if t.length] or trajectories[:1]  # an empty one knows no shape of actions
        self.actions = np.concatenate([t.actions for t in lived])
        self.log_probs = np.concatenate([t.log_probs for t in trajectories]).astype(dtype)
        self.values = np.concatenate([t.values for t in trajectories]).astype(dtype)
        self._rewards = [learned(t, rewards, policy.norm) for t in trajectories]
        self.rewarded = sum(np.count_nonzero(t.rewards) for t in trajectories)

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


def learned(trajectory, kind, norm=None):
    """The rewards that are learned from, float64 (length,).

    They are the game's (``raw``), their ``sign``, or ``scaled`` for returns of deviation 1. Where a game was cut, the
    discounted value of the next state is added.
    """
    rewards = np.sign(trajectory.rewards) if kind == "sign" else trajectory.rewards.copy()
    if kind == "scaled":
        rewards *= norm.reward_factor
    for step, value in trajectory.ahead:
        rewards[step] += value
    return rewards


def _advantages(t, rewards, values, config):
    """The advantage of each step of one env, a ``Trajectory``: float64 (length,)."""
    if config.method == "clipped":
        return generalised_advantages(rewards, values, t.ends, t.last_value, config.gamma, config.gae_lambda)
    returns = discounted_returns(rewards, t.ends, config.gamma)
    games = np.split(returns, [cut for cut in t.cuts if cut < t.length])  # each is standardised by itself
    return np.concatenate([standardise(game) for game in games if len(game)] or [returns])
