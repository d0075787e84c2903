"""Select the specification module for an ``--env-id``, and import only the libraries of its environments."""

from collections.abc import Mapping
from typing import Any, cast

from numpy.typing import NDArray

from pg_mpi.config.presets import is_atari
from pg_mpi.config.settings import TrainConfig
from pg_mpi.env.interface import EnvSpec


def _kind(env_id: str) -> Any:
    """Return the module whose ``check``, ``make_spec`` and ``restored`` handle an environment."""
    if is_atari(env_id):
        from pg_mpi.env import atari_spec

        return atari_spec
    from pg_mpi.env import gym_spec

    return gym_spec


def check(config: TrainConfig) -> None:
    """Raise ``UsageError`` for an unknown env_id, without playing."""
    _kind(config.env_id).check(config)


def make_spec(config: TrainConfig) -> EnvSpec:
    """Return the specification of the environment of ``config``. Raises ``UsageError`` for an unknown env_id."""
    return cast(EnvSpec, _kind(config.env_id).make_spec(config))


def restored(env_id: str, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> EnvSpec:
    """Restore a specification from a checkpoint. Raises ValueError, KeyError or TypeError for malformed data."""
    return cast(EnvSpec, _kind(env_id).restored(arrays, facts))
