"""How long steps of an environment take, and what three ways to drive several of them make of it.

The question and its figures are those of a talk of 2021 on moving from vectors of environments to batched rollouts.
"""

import dataclasses

import numpy as np

WAYS = ("lock-step", "independent", "hybrid")
#: The talk's figures, milliseconds a step, and what they assume.
TALK = {
    "lock-step": (23.0, "3 ms, or 100 ms in 1 of 5 steps of the vector"),
    "independent": (3.0, "the time of a usual step: slow ones are not in it"),
    "hybrid": (35.0, "its drawing of two workers; the same drawing in lock-step: 52 ms"),
}


@dataclasses.dataclass(frozen=True)
class Times:
    """The distribution of a step's time. All in milliseconds.

    Attributes:
        usual, slow, chance: a step takes ``usual``, or ``slow`` with this probability.
        deviation: if above 0, a step's time is normal about ``usual`` instead, cut off at a tenth of it.
    """

    usual: float
    slow: float
    chance: float
    deviation: float

    def draw(self, env, steps, seed):
        """Seconds of each step of one environment, whoever drives it: float64 (steps,)."""
        rng = np.random.default_rng((seed, env))
        if self.deviation:
            times = np.maximum(self.usual + self.deviation * rng.standard_normal(steps), self.usual / 10)
        else:
            times = np.where(rng.random(steps) < self.chance, self.slow, self.usual)
        return times / 1e3


def group_of(way, env, envs, workers):
    """The number of the group whose environments step together; None for an environment on its own."""
    if way == "independent":
        return env
    return 0 if way == "lock-step" else env * workers // envs


def ideal(way, times, workers):
    """Seconds that all steps of (envs, steps) ``times`` would take if nothing but the steps took time.

    A group's step takes as long as its slowest; groups go on by themselves, and the last one ends it.
    """
    envs = len(times)
    groups = {}
    for env in range(envs):
        groups.setdefault(group_of(way, env, envs, workers), []).append(times[env])
    return max(float(np.max(group, axis=0).sum()) for group in groups.values())
