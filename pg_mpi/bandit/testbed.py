"""The testbed: random tasks, played by every method on the same random numbers, all runs of a rank at once.

Run r has a random stream of its own, ``SeedSequence(seed, spawn_key=(role, r))``, so what it draws does not depend on
which rank plays it, nor beside which others. All that is summed over runs is first rounded to multiples of 2^-20, which
float64 adds without rounding (see learning/reproducible_sum.py): nor do the sums.
"""

import numpy as np
from numpy.random import Generator

from pg_mpi.config.random_streams import BANDIT, stream
from pg_mpi.learning.reproducible_sum import check, on_grid

BLOCK = 250  # steps whose random numbers are drawn at once; which run draws what depends on it
CHUNK = 1024  # runs played at once: their estimates fit a core's cache


class Draws:
    """The random numbers of some runs, block by block.

    Attributes:
        means: what each arm pays on average, normal around ``mean``: (arms, runs). With a drift all begin as ``mean``.
    """

    def __init__(self, task, runs):
        self._arms, self._drift = task.arms, task.drift
        self._streams = [stream(task.seed, BANDIT, run) for run in runs]
        deviations = self._draw(Generator.standard_normal, task.arms)
        self.means = task.mean + (0.0 * deviations if task.drift else deviations)

    def block(self):
        """(noise, uniforms, walk): (BLOCK, runs), (BLOCK, 2, runs), and (BLOCK, arms, runs) or None."""
        noise, uniforms = self._draw(Generator.standard_normal, BLOCK), self._draw(Generator.random, BLOCK, 2)
        walk = self._draw(Generator.standard_normal, BLOCK, self._arms) if self._drift else None
        return noise, uniforms, walk

    def _draw(self, kind, *shape):
        """Numbers of each run's own stream: (*shape, runs)."""
        rows = np.empty((len(self._streams), *shape))
        for rng, row in zip(self._streams, rows):
            kind(rng, out=row)
        return np.moveaxis(rows, 0, -1).copy()


class Arms:
    """What the arms of some runs pay: normal, with deviation 1, around means that may drift."""

    def __init__(self, means, drift):
        self._means, self._drift = means.copy(), drift
        self._top = means.max(axis=0)

    def pull(self, places, noise):
        """(runs,) rewards, and whether each arm was the best one there is."""
        mean = self._means.reshape(-1)[places]
        return mean + noise, mean == self._top

    def move(self, walk):
        """A step of the means' random walk."""
        self._means += self._drift * walk
        self._top = self._means.max(axis=0)


class Sums:
    """What a method got, summed over runs, on a grid: float64 ``values``, ``ROWS`` of each step and two of whole runs.

    The last two numbers are the sums over runs of a run's average reward and of its square.
    """

    ROWS = 3  # rewards, squared rewards, best arms pulled

    def __init__(self, steps):
        self.values = np.zeros(self.ROWS * steps + 2)
        self._steps = self.values[:-2].reshape(self.ROWS, steps)

    def add(self, first, rewards, optimal):
        """The steps from ``first`` on of some runs: (steps, runs) each."""
        part = self._steps[:, first : first + len(rewards)]
        for row, what in zip(part, (rewards, on_grid(rewards**2), optimal)):
            row += what.sum(axis=1)

    def end(self, averages):
        """Some runs' average rewards, (runs,)."""
        self.values[-2:] += on_grid(averages).sum(), on_grid(averages**2).sum()

    def means(self, runs):
        """Mean and its 95 % half-width, of the reward and the share of best arms, by step; and of a whole run's reward.

        Three (mean, half-width) pairs: (steps,), (steps,) and numbers.
        """
        check(self.values)
        reward, square, optimal = self._steps / runs
        whole, whole_square = self.values[-2:] / runs
        return [
            (mean, 1.96 * np.sqrt(np.maximum(square - mean**2, 0) / max(runs - 1, 1)))
            for mean, square in ((reward, square), (optimal, optimal), (whole, whole_square))
        ]


def play(task, methods, runs, tell=lambda done: None):
    """Let every method play the same ``runs``, a range: a ``Sums`` of each.

    ``tell``: called with the number of runs done so far.
    """
    sums = [Sums(task.steps) for _ in methods]
    for begin in range(runs.start, runs.stop, CHUNK):
        chunk = range(begin, min(begin + CHUNK, runs.stop))
        _play_chunk(task, methods, chunk, sums)
        tell(chunk.stop - runs.start)
    return sums


def _play_chunk(task, methods, runs, sums):
    draws = Draws(task, runs)
    shape = (task.arms, len(runs))
    players = [(method.make(shape), Arms(draws.means, task.drift), np.zeros(len(runs))) for method in methods]
    for first in range(0, task.steps, BLOCK):
        length = min(BLOCK, task.steps - first)
        block = draws.block()
        for (agent, arms, total), each in zip(players, sums):
            rewards, optimal = _play_block(agent, arms, length, *block)
            each.add(first, rewards, optimal)
            total += rewards.sum(axis=0)
    for (_, _, total), each in zip(players, sums):
        each.end(total / task.steps)


def _play_block(agent, arms, length, noise, uniforms, walk):
    """Rewards, on the grid, and best arms of ``length`` steps: (length, runs) each."""
    rewards, optimal = np.empty((length, noise.shape[1])), np.empty((length, noise.shape[1]), dtype=bool)
    runs = np.arange(noise.shape[1])
    for step in range(length):
        places = agent.choose(uniforms[step]) * len(runs) + runs
        rewards[step], optimal[step] = arms.pull(places, noise[step])
        agent.learn(places, rewards[step])
        if walk is not None:
            arms.move(walk[step])
    return on_grid(rewards), optimal
