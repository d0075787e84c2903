"""What follows from the run's size and age: the number of minibatches, the learning rate, annealing."""

import dataclasses
import math

from pg_mpi.config.settings import TrainConfig
from pg_mpi.learning.round_length import whole_games

ANNEALED = 0.1  # final factor
FASTEST = 2.0  # largest factor on the learning rate


@dataclasses.dataclass(frozen=True)
class Plan:
    """How one update learns.

    Args:
        minibatches: of an epoch.
        anneal: factor on the entropy bonus; ``rate``: on the learning rate.
        progress: the steps of ``--anneal-timesteps`` that the round counts for.
    """

    minibatches: int
    anneal: float
    rate: float
    progress: float


def plan(config: TrainConfig, samples: int, anneal_steps: float = 0.0) -> Plan:
    """The ``Plan`` of an update on a round of ``samples`` samples of all ranks.

    Minibatches have about ``--minibatch-size`` samples; fewer if the round is smaller, and more where an epoch would
    have more than ``--max-minibatches``. The learning rate follows the root of their size, up to ``FASTEST`` times.
    Beyond that fewer steps count for the annealing, so that the sum of the squared learning rates of all optimizer
    steps is the same: the time of the stochastic differential equation that Adam follows.
    Source: Malladi et al., "On the SDEs and Scaling Rules for Adaptive Gradient Algorithms" (2022).

    ``anneal_steps``: the sum of ``progress`` so far.
    """
    anneal = annealing(config, anneal_steps)
    if whole_games(config):  # one step along the gradient of all games
        return Plan(1, anneal, anneal, samples)
    count = min(max(1, round(samples / config.minibatch_size)), config.max_minibatches)
    growth = max(samples, 1) / (count * config.minibatch_size)
    factor = min(FASTEST, math.sqrt(growth))
    return Plan(count, anneal, anneal * factor, samples * factor**2 / growth)


def annealing(config: TrainConfig, anneal_steps: float) -> float:
    """Factor on the learning rate and the entropy bonus after ``anneal_steps`` steps as ``Plan.progress`` counts them.

    It falls linearly from 1 to ``ANNEALED`` over ``--anneal-timesteps`` and stays there; with 0 it is always 1.
    """
    gone = min(1.0, anneal_steps / config.anneal_timesteps) if config.anneal_timesteps else 0.0
    return 1 - (1 - ANNEALED) * gone
