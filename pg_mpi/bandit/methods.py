"""Bandit methods, which choose arms and learn from rewards for many runs at once.

Arrays are (arms, runs), so that operations over arms read contiguous rows. Each method has

    choose(uniforms)        (2, runs) uniform numbers → int64 (runs,), the arm that each run pulls
    learn(places, rewards)  update from these pulls; places, int64 (runs,), index the pulled arms in the flat array

Source: Sutton & Barto, "Reinforcement Learning: An Introduction" (2nd ed., 2018), chapter 2.
"""

from typing import Any, Protocol, cast

import numpy as np

from pg_mpi.config.array_types import Doubles, Integers


class Agent(Protocol):
    """A method that plays some runs."""

    def choose(self, uniforms: Doubles) -> Integers:
        """Return the arm that each run pulls."""

    def learn(self, places: Integers, rewards: Doubles) -> object:
        """Update from these pulls."""


def best(scores: Doubles, uniforms: Doubles) -> Integers:
    """Return the arm with the highest score of each run, ties broken at random: (arms, runs) → int64 (runs,)."""
    order = (scores == scores.max(axis=0)).cumsum(axis=0)  # number of best arms up to each arm
    return cast(Integers, (order <= (uniforms * order[-1]).astype(np.int64)).sum(axis=0))


class Values:
    """Estimates of each arm's reward: Q += (R - Q) / N, the average, or Q += step (R - Q) (equations 2.3, 2.5).

    Args:
        shape: (arms, runs).
        start: the first estimates.
        step: a constant step size; None for averages.
    """

    def __init__(self, shape: tuple[int, int], start: float = 0.0, step: float | None = None) -> None:
        self.arms = shape[0]
        self.estimates = np.full(shape, float(start))
        self._flat = self.estimates.reshape(-1)
        self._step, self._pulls = step, np.zeros(self._flat.size)

    def learn(self, places: Integers, rewards: Doubles) -> Any:
        self._pulls[places] = pulls = self._pulls[places] + 1
        old = self._flat[places]
        self._flat[places] = old + (rewards - old) * (self._step or 1 / pulls)
        return pulls


class EpsilonGreedy(Values):
    """Choose the arm with the highest estimate; with probability ``epsilon`` a random arm (section 2.2).

    With ``epsilon`` 0 and a high ``start`` it also explores, because low rewards lower estimates (section 2.6).
    """

    def __init__(self, shape: tuple[int, int], epsilon: float, start: float = 0.0, step: float | None = None) -> None:
        super().__init__(shape, start, step)
        self._epsilon = epsilon

    def choose(self, uniforms: Doubles) -> Integers:
        explores, which = uniforms[0] < self._epsilon, uniforms[1]
        return np.where(explores, (which * self.arms).astype(np.int64), best(self.estimates, which))


class UpperConfidence(Values):
    """Choose the arm whose estimate plus ``c`` sqrt(ln t / N) is highest; untried arms first (UCB, equation 2.10)."""

    def __init__(self, shape: tuple[int, int], c: float, start: float = 0.0, step: float | None = None) -> None:
        super().__init__(shape, start, step)
        self._c, self._time = c, 0
        self._doubt = np.full(shape, np.inf)  # 1 / sqrt(N)

    def choose(self, uniforms: Doubles) -> Integers:
        self._time += 1
        width = self._c * np.sqrt(np.log(max(self._time, 2)))  # at t = 1 no arm is tried: any positive width works
        return best(self.estimates + width * self._doubt, uniforms[1])

    def learn(self, places: Integers, rewards: Doubles) -> None:
        pulls = super().learn(places, rewards)
        self._doubt.reshape(-1)[places] = 1 / np.sqrt(pulls)


class Gradient:
    """A softmax policy of one preference H per arm, moved along the policy gradient (equations 2.11 and 2.12):

        H_a += step (R - B) (1{a = A} - pi_a)

    ``baseline``: whether B is the average of the earlier rewards (at the first step the reward itself), or 0.
    """

    def __init__(self, shape: tuple[int, int], step: float, baseline: bool = True) -> None:
        self._preferences, self._step = np.zeros(shape), step
        self._baseline: Any = np.zeros(shape[1]) if baseline else None
        self._time = 0

    def choose(self, uniforms: Doubles) -> Integers:
        weights = np.exp(self._preferences - self._preferences.max(axis=0))
        sums = weights.cumsum(axis=0)
        self._policy = weights / sums[-1]
        chosen = (sums <= uniforms[1] * sums[-1]).sum(axis=0)
        return cast(Integers, np.minimum(chosen, len(weights) - 1))  # the product may round up to the sum

    def learn(self, places: Integers, rewards: Doubles) -> None:
        push = self._step * (rewards if self._baseline is None else rewards - self._usual(rewards))
        self._preferences -= push * self._policy
        self._preferences.reshape(-1)[places] += push

    def _usual(self, rewards: Doubles) -> Doubles:
        """Return the baseline of this step, then update it with these rewards."""
        self._time += 1
        usual = self._baseline if self._time > 1 else rewards
        self._baseline = self._baseline + (rewards - self._baseline) / self._time
        return usual
