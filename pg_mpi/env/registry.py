"""Select the specification module for an ``--env-id``."""

from pg_mpi.env import atari_spec


def _kind(env_id):
    """Return the module whose ``check``, ``learn`` and ``restored`` handle an environment."""
    if env_id.startswith("ALE/"):
        return atari_spec
    from pg_mpi.env import gym_spec  # optional dependency

    return gym_spec


def check(config):
    """Raise ``UsageError`` for an unknown env_id, without playing."""
    _kind(config.env_id).check(config)


def learn(config):
    """Return the specification of the environment of ``config``. Raises ``UsageError`` for an unknown env_id."""
    return _kind(config.env_id).learn(config)


def restored(env_id, arrays, facts):
    """Restore a specification from a checkpoint. Raises ValueError, KeyError or TypeError for malformed data."""
    return _kind(env_id).restored(arrays, facts)
