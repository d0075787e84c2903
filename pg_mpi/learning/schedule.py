"""What follows from the run's size and age: the number of minibatches, the learning rate, annealing."""

import math

from pg_mpi.config.settings import TrainConfig
from pg_mpi.learning.round_length import whole_games

ANNEALED = 0.1  # final factor
FASTEST = 4.0  # largest factor on the learning rate, the largest that was tried


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

    All of them while ``rate_factor`` is the root of the growth, beyond it fewer, so that the sum of the squared
    learning rates of all optimizer steps is the same: the time of the stochastic differential equation that Adam
    follows (Malladi et al., 2022).
    """
    return samples * rate_factor(config, samples) ** 2 / growth(config, samples)


def annealing(config: TrainConfig, anneal_steps: float) -> float:
    """Factor on the learning rate and the entropy bonus after ``anneal_steps`` steps as ``annealed`` counts them.

    It falls linearly from 1 to ``ANNEALED`` over ``--anneal-timesteps`` and stays there; with 0 it is always 1.
    """
    gone = min(1.0, anneal_steps / config.anneal_timesteps) if config.anneal_timesteps else 0.0
    return 1 - (1 - ANNEALED) * gone
