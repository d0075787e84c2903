"""The testbed: random tasks that every method plays with the same random numbers, all runs of a rank at once.

Run r has its own random stream, ``SeedSequence(seed, spawn_key=(role, r))``, so its numbers do not depend on the rank
or on the other runs. Numbers are rounded to multiples of 2^-20 before they are summed over runs. float64 adds these
without rounding (see learning/reproducible_sum.py), so the sums do not depend on the number of ranks either.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from pg_mpi.bandit.methods import Agent, Floats, Integers
from pg_mpi.bandit.plan import Method
from pg_mpi.config.random_streams import BANDIT, stream
from pg_mpi.learning.reproducible_sum import check, on_grid

BLOCK = 250  # steps whose random numbers are drawn at once; the numbers of a run depend on it
CHUNK = 1024  # runs played at once: their estimates fit a core's cache

Flags = NDArray[np.bool_]


@dataclasses.dataclass(frozen=True)
class Task:
    """The task: ``steps`` pulls of ``arms`` with means normal around ``mean`` that walk by ``drift`` a step."""

    arms: int
    runs: int
    steps: int
    seed: int
    mean: float
    drift: float


class Draws:
    """The random numbers of some runs, block by block.

    Attributes:
        means: mean reward of each arm, normal around ``mean``: (arms, runs). With a drift all start at ``mean``.
    """

    def __init__(self, task: Task, runs: range) -> None:
        self._arms, self._drift = task.arms, task.drift
        self._streams = [stream(task.seed, BANDIT, run) for run in runs]
        deviations = self._draw(Generator.standard_normal, task.arms)
        self.means = task.mean + (0.0 * deviations if task.drift else deviations)

    def block(self) -> tuple[Floats, Floats, Floats | None]:
        """Draw (noise, uniforms, walk): (BLOCK, runs), (BLOCK, 2, runs), and (BLOCK, arms, runs) or None."""
        noise, uniforms = self._draw(Generator.standard_normal, BLOCK), self._draw(Generator.random, BLOCK, 2)
        walk = self._draw(Generator.standard_normal, BLOCK, self._arms) if self._drift else None
        return noise, uniforms, walk

    def _draw(self, kind: Callable[..., Any], *shape: int) -> Floats:
        """Draw from each run's own stream: (*shape, runs)."""
        rows = np.empty((len(self._streams), *shape))
        for rng, row in zip(self._streams, rows):
            kind(rng, out=row)
        return np.moveaxis(rows, 0, -1).copy()


class Arms:
    """Arms of some runs. Rewards are normal, with deviation 1, around means that may drift."""

    def __init__(self, means: Floats, drift: float) -> None:
        self._means, self._drift = means.copy(), drift
        self._top = means.max(axis=0)

    def pull(self, places: Integers, noise: Floats) -> tuple[Floats, Flags]:
        """Return the rewards, (runs,), and whether each pulled arm is the best."""
        mean = self._means.reshape(-1)[places]
        return mean + noise, mean == self._top

    def move(self, walk: Floats) -> None:
        """Advance the means' random walk by one step."""
        self._means += self._drift * walk
        self._top = self._means.max(axis=0)


class Sums:
    """Results of a method, summed over runs on a grid: float64 ``values``, ``ROWS`` rows of steps and two numbers.

    The last two numbers are the sums over runs of a run's average reward and of its square.
    """

    ROWS = 3  # rewards, squared rewards, best arms pulled

    def __init__(self, steps: int) -> None:
        self.values = np.zeros(self.ROWS * steps + 2)
        self._steps = self.values[:-2].reshape(self.ROWS, steps)

    def add(self, first: int, rewards: Floats, optimal: Flags) -> None:
        """Add the steps from ``first`` on of some runs: (steps, runs) each."""
        part = self._steps[:, first : first + len(rewards)]
        for row, what in zip(part, (rewards, on_grid(rewards**2), optimal)):
            row += what.sum(axis=1)

    def end(self, averages: Floats) -> None:
        """Add the average rewards of some runs, (runs,)."""
        self.values[-2:] += on_grid(averages).sum(), on_grid(averages**2).sum()

    def means(self, runs: int) -> list[tuple[Any, Any]]:
        """Return means and 95 % half-widths of the reward by step, the share of best arms by step, and a run's reward.

        Three (mean, half-width) pairs: (steps,), (steps,) and scalars.
        """
        check(self.values)
        reward, square, optimal = self._steps / runs
        whole, whole_square = self.values[-2:] / runs
        return [
            (mean, 1.96 * np.sqrt(np.maximum(square - mean**2, 0) / max(runs - 1, 1)))
            for mean, square in ((reward, square), (optimal, optimal), (whole, whole_square))
        ]


def play(
    task: Task, methods: Sequence[Method], runs: range, tell: Callable[[int], object] = lambda done: None
) -> list[Sums]:
    """Play the same ``runs`` with every method; return the ``Sums`` of each.

    ``tell``: called with the number of runs played so far.
    """
    sums = [Sums(task.steps) for _ in methods]
    for begin in range(runs.start, runs.stop, CHUNK):
        chunk = range(begin, min(begin + CHUNK, runs.stop))
        _play_chunk(task, methods, chunk, sums)
        tell(chunk.stop - runs.start)
    return sums


def _play_chunk(task: Task, methods: Sequence[Method], runs: range, sums: Sequence[Sums]) -> None:
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


def _play_block(
    agent: Agent, arms: Arms, length: int, noise: Floats, uniforms: Floats, walk: Floats | None
) -> tuple[Floats, Flags]:
    """Play ``length`` steps; return rewards on the grid, and whether each arm was the best: (length, runs) each."""
    rewards, optimal = np.empty((length, noise.shape[1])), np.empty((length, noise.shape[1]), dtype=bool)
    runs = np.arange(noise.shape[1])
    for step in range(length):
        places = agent.choose(uniforms[step]) * len(runs) + runs
        rewards[step], optimal[step] = arms.pull(places, noise[step])
        agent.learn(places, rewards[step])
        if walk is not None:
            arms.move(walk[step])
    return on_grid(rewards), optimal
