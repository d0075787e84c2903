"""What changes over a run: the length of a round, and the annealed learning rate and entropy bonus."""

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
    if config.method == "reinforce":
        return RoundLength(math.inf, config.games_per_update)
    if config.sync == "steps":
        return RoundLength(config.num_steps, math.inf)
    if envs == 1:
        return RoundLength(LONGEST, config.games_per_update)
    longest = min(LONGEST, config.games_per_update * config.max_frames // config.frame_skip)
    if not newest:
        return RoundLength(longest, math.inf)
    mean = statistics.fmean(steps for _, steps in newest)
    return RoundLength(min(max(SHORTEST, round(config.games_per_update * mean)), longest), math.inf)


def annealing(config: TrainConfig, env_steps: int) -> float:
    """Factor on the learning rate and the entropy bonus after ``env_steps`` agent steps of all ranks.

    It falls linearly from 1 to ``ANNEALED`` over ``--anneal-timesteps`` and stays there; with 0 it is always 1.
    """
    gone = min(1.0, env_steps / config.anneal_timesteps) if config.anneal_timesteps else 0.0
    return 1 - (1 - ANNEALED) * gone
