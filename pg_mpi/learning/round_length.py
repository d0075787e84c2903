"""The length of a round: how many steps each env plays between two updates."""

import math
import statistics
from collections.abc import Collection, Sequence
from typing import NamedTuple

from pg_mpi.config.settings import TrainConfig

SHORTEST, LONGEST = 128, 1024  # steps of an env in a round with --sync episode


class RoundLength(NamedTuple):
    """Each env plays ``steps`` steps, or ``games`` games if they end before."""

    steps: float
    games: float


def round_length(config: TrainConfig, envs: int, newest: Collection[Sequence[float]] = ()) -> RoundLength:
    """Return the length of the next round.

    With ``--sync episode`` every env plays as many steps as ``--games-per-update`` of the newest games took on average,
    at least ``SHORTEST`` and at most ``longest_round``. Its unfinished game continues in the next round, so no rank
    waits for the longest game. A single env plays ``--games-per-update`` games, but at most ``LONGEST`` steps.
    REINFORCE plays whole games, which it needs.

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
