"""What follows from the run's size and age: the length of a round, its minibatches, and the annealing."""

import math
import statistics
from collections.abc import Collection, Sequence
from typing import NamedTuple

from pg_mpi.config.settings import TrainConfig

SHORTEST, LONGEST = 128, 1024  # steps of an env in a round with --sync episode
ANNEALED = 0.1  # final factor
FASTEST = 4.0  # largest factor on the learning rate, the largest that was tried


class RoundLength(NamedTuple):
    """Each env plays ``steps`` steps, or ``games`` games if they end before."""

    steps: float
    games: float


def round_length(config: TrainConfig, envs: int, newest: Collection[Sequence[float]] = ()) -> RoundLength:
    """Return the length of the next round.

    With ``--sync episode`` every env plays as many steps as ``--games-per-update`` of the newest games took on average,
    and its unfinished game continues in the next round, so no rank waits for the longest game. A single env plays whole
    games, and so does REINFORCE, which needs them.

    Args:
        envs: their number over all ranks.
        newest: (score, steps) of the newest games over all ranks.
    """
    if whole_games(config):
        return RoundLength(math.inf, config.games_per_update)
    if config.sync == "steps":
        return RoundLength(config.num_steps, math.inf)
    if envs == 1:
        return RoundLength(LONGEST, config.games_per_update)
    longest = longest_round(config)
    if not newest:
        return RoundLength(longest, math.inf)
    mean = statistics.fmean(steps for _, steps in newest)
    return RoundLength(min(max(SHORTEST, round(config.games_per_update * mean)), longest), math.inf)


def whole_games(config: TrainConfig) -> bool:
    """Whether rounds consist of whole games, which REINFORCE needs."""
    return config.method == "reinforce"


def longest_round(config: TrainConfig) -> int:
    """Most steps of an env in a round. REINFORCE plays whole games, however long."""
    if config.sync == "steps":
        return config.num_steps
    return min(LONGEST, -(-config.games_per_update * config.max_frames // config.frame_skip))


def minibatches(config: TrainConfig, samples: int) -> int:
    """Number of minibatches of an epoch over a round of ``samples`` samples of all ranks."""
    return min(config.max_minibatches, max(1, round(samples / config.minibatch_size)))


def growth(config: TrainConfig, samples: int) -> float:
    """Factor by which the minibatches of a round of ``samples`` samples exceed ``--minibatch-size``, at least 1."""
    if whole_games(config):
        return 1.0
    return max(1.0, samples / (config.minibatch_size * config.max_minibatches))


def rate_factor(config: TrainConfig, samples: int) -> float:
    """Factor on the learning rate for a round of ``samples`` samples: the root of the ``growth``, at most ``FASTEST``.

    Source: Malladi et al., "On the SDEs and Scaling Rules for Adaptive Gradient Algorithms" (2022).
    """
    return min(FASTEST, math.sqrt(growth(config, samples)))


def annealed(config: TrainConfig, samples: int) -> float:
    """The steps of ``--anneal-timesteps`` that a round of ``samples`` samples counts for.

    Fewer than the samples if minibatches grow, so that the learning rate summed over all optimizer steps is the same.
    """
    return samples * rate_factor(config, samples) / growth(config, samples)


def annealing(config: TrainConfig, anneal_steps: float) -> float:
    """Factor on the learning rate and the entropy bonus after ``anneal_steps`` steps as ``annealed`` counts them.

    It falls linearly from 1 to ``ANNEALED`` over ``--anneal-timesteps`` and stays there; with 0 it is always 1.
    """
    gone = min(1.0, anneal_steps / config.anneal_timesteps) if config.anneal_timesteps else 0.0
    return 1 - (1 - ANNEALED) * gone
