"""Counts of a round over all ranks, by reductions whose size does not depend on the number of ranks."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pg_mpi.config.array_types import Doubles
from pg_mpi.learning.reproducible_sum import split
from pg_mpi.learning.rollout import Env
from pg_mpi.learning.trajectory import Trajectory
from pg_mpi.mpi.interface import Collectives

MOST_GAMES = 100  # games of a round whose scores are shared
NO_GAME = -1.0  # index of an unused row


class RoundCounts(NamedTuple):
    """Counts of a round over all ranks.

    Attributes:
        recent: finished games in the order of their envs, float64 (n, 2) of (score, steps). Of more than
            ``MOST_GAMES``, those of the envs with the highest indices.
    """

    env_steps: int
    games: int
    emulator_errors: int
    reward_count: int
    reward_sum: float
    recent: Doubles


def count_round(world: Collectives, envs: Sequence[Env], played: Sequence[Trajectory]) -> RoundCounts:
    """Count a round of this rank's ``envs``, equal on all ranks. Collective: every rank must call this.

    The sum of rewards does not depend on the number of ranks (see ``reproducible_sum``).
    """
    counts = np.zeros(6)
    for t in played:
        paid = np.count_nonzero(t.rewards)
        counts += np.array([t.length, len(t.games), t.errors, paid, *split(t.rewards).sum(axis=1)])
    world.sum_(counts)
    env_steps, games, errors, reward_count = map(int, counts[:4])
    rows = np.full((MOST_GAMES, 3), NO_GAME)
    if games:
        own = [(env.index, *game) for env, t in zip(envs, played) for game in t.games]
        rows = merge_games(rows, np.array(own, dtype=np.float64).reshape(-1, 3))
        world.merge_(rows, merge_games)
    recent = rows[rows[:, 0] != NO_GAME, 1:]
    return RoundCounts(env_steps, games, errors, reward_count, float(counts[4:].sum()), recent)


def merge_games(rows: Doubles, others: Doubles) -> Doubles:
    """Merge rows of (env index, score, steps), oldest first within an env, by env index; return the last ``len(rows)``.

    Which rows are kept depends on the env index, not on the time.
    """
    both = np.concatenate((rows, others))
    return both[np.argsort(both[:, 0], kind="stable")][-len(rows) :]
