"""What follows from the run's size and age: the length of a round, its minibatches, and the annealing."""

import math
import statistics
from collections.abc import Collection, Sequence
from typing import NamedTuple

from pg_mpi.config.settings import TrainConfig

SHORTEST, LONGEST = 128, 1024  # steps of an env in a round with --sync episode
ANNEALED = 0.1  # final factor


class RoundLength(NamedTuple):
    """Each env plays ``steps`` steps, or ``games`` games if they end before."""

    steps: float
    games: float


def round_length(config: TrainConfig, envs: int, newest: Collection[Sequence[float]] = ()) -> RoundLength:
    """Return the length of the next round.

    With ``--sync episode`` every env plays as many steps as ``--games-per-update`` of the newest games took on average,
    and its unfinished game continues in the next round: nobody waits for the longest game. A single env has nobody to
    wait for and plays whole games, and so does REINFORCE, which needs them.

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
    longest = _longest(config)
    if not newest:
        return RoundLength(longest, math.inf)
    mean = statistics.fmean(steps for _, steps in newest)
    return RoundLength(min(max(SHORTEST, round(config.games_per_update * mean)), longest), math.inf)


def whole_games(config: TrainConfig) -> bool:
    """Whether rounds consist of whole games, which REINFORCE needs."""
    return config.method == "reinforce"


def _longest(config: TrainConfig) -> int:
    """Most steps of an env in a round; those of REINFORCE have no limit but that of the games."""
    if config.sync == "steps":
        return config.num_steps
    return min(LONGEST, config.games_per_update * config.max_frames // config.frame_skip)


def minibatches(config: TrainConfig, samples: int) -> int:
    """Number of minibatches of an epoch over a round of ``samples`` samples of all ranks."""
    return min(config.max_minibatches, max(1, round(samples / config.minibatch_size)))


def growth(config: TrainConfig, envs: int) -> float:
    """Factor by which the minibatches of the longest round of ``envs`` envs exceed ``--minibatch-size``, at least 1."""
    if whole_games(config):
        return 1.0
    return max(1.0, envs * _longest(config) / (config.minibatch_size * config.max_minibatches))


def annealing(config: TrainConfig, env_steps: int, envs: int) -> float:
    """Factor on the learning rate and the entropy bonus after ``env_steps`` agent steps of all ranks.

    It falls linearly from 1 to ``ANNEALED`` over ``--anneal-timesteps``, times the ``growth`` of the minibatches, so
    that it takes as many optimizer steps on any number of ranks; with 0 it is always 1. ``envs``: of all ranks.
    """
    whole = config.anneal_timesteps * growth(config, envs)
    return 1 - (1 - ANNEALED) * min(1.0, env_steps / whole) if whole else 1.0


def describe(config: TrainConfig, envs: int) -> list[str]:
    """Lines of text on an update of ``envs`` envs over all ranks."""
    games, steps = f"{config.games_per_update} game{'s' if config.games_per_update > 1 else ''}", _longest(config)
    if whole_games(config):
        return [f"an update: {games} of each of {envs:,} envs, 1 exchange"]
    samples, most = envs * steps, "" if config.sync == "steps" else "at most "
    count = minibatches(config, samples)
    played = f"{samples:,} samples ({envs:,} envs, {steps:,} steps each)"
    learned = f"{config.update_epochs} epochs of {count} minibatches of {round(samples / count):,}"
    lines = [f"an update: {most}{played}; {learned}: {config.update_epochs * count} exchanges"]
    if config.anneal_timesteps:
        whole = round(config.anneal_timesteps * growth(config, envs))
        lines.append(f"learning rate and entropy bonus fall to {ANNEALED:.0%} over {whole:,} steps")
    return lines
