"""The samples of one update as arrays: policy inputs, actions, advantages and value targets."""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from pg_mpi.config.array_types import Doubles, Floats
from pg_mpi.config.settings import TrainConfig
from pg_mpi.learning.advantages import discounted_returns, generalised_advantages, standardise
from pg_mpi.learning.trajectory import Trajectory
from pg_mpi.policy.interface import Policy
from pg_mpi.policy.running_norm import RunningNorm


class Batch:
    """This rank's samples of one update, concatenated over envs.

    Args:
        rewards: ``kind`` of ``learned``.

    Attributes:
        x: policy inputs, such as csr (n, rows) on the parameter rows.
        actions: int64 (n,), or float (n, d).
        log_probs: (n,) of the policy's dtype, log-probabilities of the actions when they were sampled.
        values: (n,) of the policy's dtype, the latest value estimate of each state.
        advantages, targets: (n,) of the policy's dtype, set by ``estimate``.
        rewarded: number of samples with a reward.
    """

    x: Any
    actions: NDArray[Any]
    advantages: Floats
    targets: Floats

    def __init__(self, trajectories: Sequence[Trajectory], policy: Policy, rewards: str = "raw") -> None:
        dtype = policy.theta.dtype
        self._trajectories = trajectories = trajectories or [Trajectory()]  # no sample: empty arrays
        self.x = policy.batch(trajectories)
        played = [t for t in trajectories if t.length] or trajectories[:1]  # an empty one has no action shape
        self.actions = np.concatenate([t.actions for t in played])
        self.log_probs = np.concatenate([t.log_probs for t in trajectories]).astype(dtype)
        self.values = np.concatenate([t.values for t in trajectories]).astype(dtype)
        self._rewards = [learned(t, rewards, policy.norm) for t in trajectories]
        self.rewarded = sum(np.count_nonzero(t.rewards) for t in trajectories)

    def estimate(self, config: TrainConfig) -> None:
        """Set ``advantages`` and ``targets`` from the current ``values``.

        Called before each epoch, so that the epoch uses the values of the previous one.
        Source: Andrychowicz et al., "What Matters in On-Policy Reinforcement Learning?" (2020).
        """
        cuts = np.cumsum([t.length for t in self._trajectories])[:-1]
        envs = zip(self._trajectories, self._rewards, np.split(self.values, cuts))
        advantages = np.concatenate([_advantages(t, rewards, values, config) for t, rewards, values in envs])
        self.targets = (advantages + self.values).astype(self.values.dtype)
        self.advantages = advantages.astype(self.values.dtype)

    def standardise(self, mean: float, deviation: float) -> None:
        """Scale the advantages, in place."""
        self.advantages -= mean
        self.advantages /= deviation


def learned(trajectory: Trajectory, kind: str, norm: RunningNorm | None = None) -> Doubles:
    """Rewards for learning, float64 (length,).

    ``kind``: ``raw``, their ``sign``, or ``scaled`` for returns of deviation 1. Where a game was cut, the discounted
    value of the next state is added.
    """
    rewards = np.sign(trajectory.rewards) if kind == "sign" else trajectory.rewards.copy()
    if kind == "scaled":
        rewards *= cast(RunningNorm, norm).reward_factor
    for step, value in trajectory.ahead:
        rewards[step] += value
    return rewards


def _advantages(t: Trajectory, rewards: Floats, values: Floats, config: TrainConfig) -> Floats:
    """Advantages of a ``Trajectory``: float64 (length,)."""
    if config.method == "clipped":
        return generalised_advantages(rewards, values, t.ends, t.last_value, config.gamma, config.gae_lambda)
    returns = discounted_returns(rewards, t.ends, config.gamma)
    games = np.split(returns, [cut for cut in t.cuts if cut < t.length])  # each is standardised separately
    return np.concatenate([standardise(game) for game in games if len(game)] or [returns])
