"""Which kind of world an ``--env-id`` names: the one place where the choice of game is made."""

from pg_mpi.env import atari_spec


def _kind(env_id):
    """The module of a kind of world: ``learn`` and ``restored`` make what is known of one."""
    if env_id.startswith("ALE/"):
        return atari_spec
    from pg_mpi.env import gym_spec  # an extra

    return gym_spec


def check(config):
    """Raise ``UsageError`` for a game that there is not, without playing it."""
    _kind(config.env_id).check(config)


def learn(config):
    """What there is to know of the game of ``config`` before a run. Raises ``UsageError`` for one that there is not."""
    return _kind(config.env_id).learn(config)


def restored(env_id, arrays, facts):
    """What a checkpoint says of its game, as ``saved`` gave it. Raises nearly anything for what is none."""
    return _kind(env_id).restored(arrays, facts)
