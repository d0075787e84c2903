"""The annealing of the learning rate and of the entropy bonus."""

ANNEALED = 0.1  # where the factor ends


def annealing(config, env_steps):
    """The factor on the learning rate and on the entropy bonus after ``env_steps`` agent steps of all ranks.

    It falls linearly from 1 to ``ANNEALED`` over ``--anneal-timesteps`` and stays there; with 0 of them it is 1.
    """
    gone = min(1.0, env_steps / config.anneal_timesteps) if config.anneal_timesteps else 0.0
    return 1 - (1 - ANNEALED) * gone
