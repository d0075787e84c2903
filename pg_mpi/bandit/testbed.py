"""The testbed: random tasks that every method plays with the same random numbers, all runs of a rank at once.

Run r has its own random stream, ``SeedSequence(seed, spawn_key=(role, r))``, so its numbers do not depend on the rank
or on the other runs. Numbers are rounded to multiples of 2^-20 before they are summed over runs. float64 adds these
without rounding (see learning/reproducible_sum.py), so the sums do not depend on the number of ranks either.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from pg_mpi.bandit.methods import Agent
from pg_mpi.bandit.plan import Method
from pg_mpi.config.array_types import Doubles
from pg_mpi.config.random_streams import BANDIT, stream
from pg_mpi.learning.reproducible_sum import check, on_grid

BLOCK = 250  # steps whose random numbers are drawn at once; the numbers of a run depend on it
CHUNK = 1024  # runs played at once: their estimates fit a core's cache

Flags = NDArray[np.bool_]


class Task(NamedTuple):
    """The task: ``steps`` pulls of ``arms`` with means normal around ``mean`` that walk by ``drift`` a step.

    With a drift all arms start at ``mean``.
    """

    arms: int
    runs: int
    steps: int
    seed: int
    mean: float
    drift: float


class Sums:
    """Results of a method, summed over runs on a grid: float64 ``values``, ``ROWS`` rows of steps and two numbers.

    The last two numbers are the sums over runs of a run's average reward and of its square.
    """

    ROWS = 3  # rewards, squared rewards, best arms pulled

    def __init__(self, steps: int) -> None:
        self.values = np.zeros(self.ROWS * steps + 2)
        self._steps = self.values[:-2].reshape(self.ROWS, steps)

    def add(self, first: int, rewards: Doubles, optimal: Flags) -> None:
        """Add the steps from ``first`` on of some runs: (steps, runs) each."""
        part = self._steps[:, first : first + len(rewards)]
        for row, what in zip(part, (rewards, on_grid(rewards**2), optimal)):
            row += what.sum(axis=1)

    def end(self, averages: Doubles) -> None:
        """Add the average rewards of some runs, (runs,)."""
        self.values[-2:] += on_grid(averages).sum(), on_grid(averages**2).sum()

    def means(self, runs: int) -> list[tuple[Any, Any]]:
        """Return means and 95 % half-widths of the reward by step, the share of best arms by step, and a run's reward.

        Three (mean, half-width) pairs: (steps,), (steps,) and scalars. Half-widths are NaN for a single run. Raises
        ``RunError`` if the sums are too large for exact addition.
        """
        check(self.values)
        reward, square, optimal = self._steps / runs
        whole, whole_square = self.values[-2:] / runs
        return [
            (mean, 1.96 * np.sqrt(np.maximum(square - mean**2, 0) / (runs - 1 or np.nan)))
            for mean, square in ((reward, square), (optimal, optimal), (whole, whole_square))
        ]


def play(task: Task, methods: Sequence[Method], runs: range) -> list[Sums]:
    """Play the same ``runs`` with every method; return the ``Sums`` of each."""
    sums = [Sums(task.steps) for _ in methods]
    for begin in range(runs.start, runs.stop, CHUNK):
        chunk = range(begin, min(begin + CHUNK, runs.stop))
        _play_chunk(task, methods, chunk, sums)
    return sums


def _play_chunk(task: Task, methods: Sequence[Method], runs: range, sums: Sequence[Sums]) -> None:
    streams = [stream(task.seed, BANDIT, run) for run in runs]
    deviations = _draw(streams, Generator.standard_normal, task.arms)
    means = np.full_like(deviations, task.mean) if task.drift else task.mean + deviations
    players = [(method.make((task.arms, len(runs))), means.copy(), np.zeros(len(runs))) for method in methods]
    for first in range(0, task.steps, BLOCK):
        noise, uniforms = _draw(streams, Generator.standard_normal, BLOCK), _draw(streams, Generator.random, BLOCK, 2)
        walk = task.drift * _draw(streams, Generator.standard_normal, BLOCK, task.arms) if task.drift else None
        for (agent, arms, total), each in zip(players, sums):
            rewards, optimal = _play_block(agent, arms, noise[: task.steps - first], uniforms, walk)
            each.add(first, rewards, optimal)
            total += rewards.sum(axis=0)
    for (_, _, total), each in zip(players, sums):
        each.end(total / task.steps)


def _draw(streams: Sequence[Generator], kind: Callable[..., Any], *shape: int) -> Doubles:
    """Draw from each run's own stream: (*shape, runs)."""
    rows = np.empty((len(streams), *shape))
    for rng, row in zip(streams, rows):
        kind(rng, out=row)
    return np.moveaxis(rows, 0, -1).copy()


def _play_block(
    agent: Agent, means: Doubles, noise: Doubles, uniforms: Doubles, walk: Doubles | None
) -> tuple[Doubles, Flags]:
    """Play a step for each row of ``noise``; rewards are normal, with deviation 1, around the ``means`` of the arms.

    Returns rewards on the grid, and whether each arm was the best: (steps, runs) each. Adds ``walk`` to ``means``.
    """
    rewards, optimal = np.empty_like(noise), np.empty(noise.shape, dtype=bool)
    runs, flat, top = np.arange(noise.shape[1]), means.reshape(-1), means.max(axis=0)
    for step in range(len(noise)):
        places = agent.choose(uniforms[step]) * len(runs) + runs
        mean = flat[places]
        rewards[step], optimal[step] = mean + noise[step], mean == top
        agent.learn(places, rewards[step])
        if walk is not None:
            means += walk[step]
            top = means.max(axis=0)
    return on_grid(rewards), optimal
