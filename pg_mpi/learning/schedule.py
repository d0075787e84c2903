"""Annealing of the learning rate and the entropy bonus."""

from pg_mpi.config.settings import TrainConfig

ANNEALED = 0.1  # final factor


def annealing(config: TrainConfig, env_steps: int) -> float:
    """Factor on the learning rate and the entropy bonus after ``env_steps`` agent steps of all ranks.

    It falls linearly from 1 to ``ANNEALED`` over ``--anneal-timesteps`` and stays there; with 0 it is always 1.
    """
    gone = min(1.0, env_steps / config.anneal_timesteps) if config.anneal_timesteps else 0.0
    return 1 - (1 - ANNEALED) * gone
