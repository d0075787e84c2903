"""Oracle of ``pg_mpi.bandit``: a plain Python loop over runs and arms.

It shares with the package only the random numbers, which define a run, and numpy's exp.
"""

import math

import numpy as np

from pg_mpi.bandit.testbed import BLOCK
from pg_mpi.config.random_streams import BANDIT, stream


def numbers(seed, run, arms, steps, drift):
    """Return a run's random numbers: (deviations of the means, [(noise, (u, v), walk) of each step])."""
    rng = stream(seed, BANDIT, run)
    deviations, found = rng.standard_normal(arms), []
    while len(found) < steps:
        noise, uniforms = rng.standard_normal(BLOCK), rng.random((BLOCK, 2))
        walk = rng.standard_normal((BLOCK, arms)) if drift else np.zeros((BLOCK, arms))
        found += zip(noise.tolist(), uniforms.tolist(), walk.tolist())
    return deviations.tolist(), found[:steps]


def pick(scores, uniform):
    """Return the index of the highest score. A uniform number breaks ties."""
    equal = [arm for arm, score in enumerate(scores) if score == max(scores)]
    return equal[int(uniform * len(equal))]


class Estimates:
    """Averages, or recency-weighted averages, of the rewards of each arm."""

    def __init__(self, arms, start=0.0, step=None):
        self.q, self.n, self.step = [float(start)] * arms, [0] * arms, step

    def learn(self, arm, reward):
        self.n[arm] += 1
        self.q[arm] = self.q[arm] + (reward - self.q[arm]) * (self.step or 1 / self.n[arm])


class Epsilon(Estimates):
    def __init__(self, arms, epsilon, **options):
        super().__init__(arms, **options)
        self.epsilon = epsilon

    def choose(self, time, u, v):
        return int(v * len(self.q)) if u < self.epsilon else pick(self.q, v)


class Ucb(Estimates):
    def __init__(self, arms, c, **options):
        super().__init__(arms, **options)
        self.c = c

    def choose(self, time, u, v):
        width = self.c * math.sqrt(math.log(time))
        return pick([q + width * (1 / math.sqrt(n)) if n else math.inf for q, n in zip(self.q, self.n)], v)


class GradientBandit:
    def __init__(self, arms, step, baseline=True):
        self.h, self.step, self.baseline, self.rewards = [0.0] * arms, step, baseline, []

    def choose(self, time, u, v):
        weights = np.exp(np.array(self.h) - max(self.h)).tolist()
        total = 0.0
        sums = [total := total + weight for weight in weights]
        self.pi = [weight / total for weight in weights]
        return next((arm for arm, each in enumerate(sums) if each > v * total), len(sums) - 1)

    def learn(self, arm, reward):
        average = 0.0
        if self.baseline:
            average = sum(self.rewards) / len(self.rewards) if self.rewards else reward
            self.rewards.append(reward)
        for each, pi in enumerate(self.pi):
            self.h[each] += self.step * (reward - average) * ((each == arm) - pi)


def play(make, seed, run, arms, steps, mean=0.0, drift=0.0):
    """Play one run of one agent: (rewards, whether each chosen arm was the best one)."""
    deviations, steps = numbers(seed, run, arms, steps, drift)
    means = [mean] * arms if drift else [mean + deviation for deviation in deviations]
    agent, rewards, optimal = make(arms), [], []
    for time, (noise, (u, v), walk) in enumerate(steps, 1):
        arm = agent.choose(time, u, v)
        rewards.append(means[arm] + noise)
        optimal.append(means[arm] == max(means))
        agent.learn(arm, rewards[-1])
        means = [each + drift * by for each, by in zip(means, walk)]
    return rewards, optimal
