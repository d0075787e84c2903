"""Step times of environments, and ideal times of three ways to drive them.

The question and its figures are from a talk of 2021 on moving from vectors of environments to batched rollouts.
"""

import dataclasses

import numpy as np

WAYS = ("lock-step", "independent", "hybrid")
#: Milliseconds per step in the talk, and their assumptions.
TALK = {
    "lock-step": (23.0, "3 ms, or 100 ms in 1 of 5 steps of the vector"),
    "independent": (3.0, "the time of a usual step, without slow ones"),
    "hybrid": (35.0, "its figure of two workers; the same figure in lock-step: 52 ms"),
}


@dataclasses.dataclass(frozen=True)
class Times:
    """Distribution of step times, in milliseconds.

    Attributes:
        usual, slow, chance: a step takes ``usual``, or ``slow`` with probability ``chance``.
        deviation: if above 0, step times are normal about ``usual`` instead, and at least a tenth of it.
    """

    usual: float
    slow: float
    chance: float
    deviation: float

    def draw(self, env, steps, seed):
        """Seconds of each step of one environment, the same in all ways: float64 (steps,)."""
        rng = np.random.default_rng((seed, env))
        if self.deviation:
            times = np.maximum(self.usual + self.deviation * rng.standard_normal(steps), self.usual / 10)
        else:
            times = np.where(rng.random(steps) < self.chance, self.slow, self.usual)
        return times / 1e3


def group_of(way, env, envs, workers):
    """Number of the environment's group. The environments of a group step together."""
    if way == "independent":
        return env
    return 0 if way == "lock-step" else env * workers // envs


def ideal(way, times, workers):
    """Seconds that all steps of ``times`` (envs, steps) take without overhead.

    A group's step takes as long as its slowest environment. Groups are independent; the slowest one counts.
    """
    envs = len(times)
    groups = {}
    for env in range(envs):
        groups.setdefault(group_of(way, env, envs, workers), []).append(times[env])
    return max(float(np.max(group, axis=0).sum()) for group in groups.values())
