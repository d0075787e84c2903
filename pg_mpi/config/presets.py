"""Presets, and the defaults of Gymnasium and custom environments."""

from collections.abc import Mapping
from typing import Any

PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    "fast": {"sync": "steps", "envs_per_rank": 8},
    # made by hand for Pong: see features/pong.py. The ball is faster if FIRE is held, so every move includes FIRE
    "pong": {
        "env_id": "ALE/Pong-v5",
        "sync": "steps",
        "envs_per_rank": 8,
        "features": "pg_mpi.features.pong:Courses",
        "actions": "NOOP,FIRE,RIGHTFIRE,LEFTFIRE",
        "minibatch_size": 512,
        "learning_rate": 7e-4,
    },
    "karpathy": {
        "env_id": "ALE/Pong-v5",
        "method": "reinforce",
        "sync": "episode",
        "envs_per_rank": 1,
        "features": "difference",
        "actions": "RIGHT,LEFT",
        "hidden": 200,
        "learning_rate": 1e-3,
        "anneal_timesteps": 0,
        "gamma": 0.99,
    },
}

#: Defaults of Gymnasium and custom environments, where they differ from those of Atari games.
GYMNASIUM: dict[str, Any] = {
    "sync": "steps",
    "envs_per_rank": 4,
    "frame_skip": 1,
    "sticky": 0.0,
    "anneal_timesteps": 0,
    "update_epochs": 10,
    "minibatch_size": 256,
    "ent_coef": 0.0,
    "learning_rate": 1e-3,
    "gamma": 0.99,
    "vf_coef": 0.5,
    "rewards": "scaled",
}


def is_atari(env_id: str) -> bool:
    """Whether an environment is an Atari game; others are made by Gymnasium or by the user's code."""
    return env_id.startswith("ALE/")


def env_defaults(env_id: str) -> dict[str, Any]:
    """The default settings of an env where they differ from those of Atari games."""
    return {} if is_atari(env_id) else dict(GYMNASIUM)


def own_flags(settings: Mapping[str, Any]) -> list[str]:
    """The flags by which ``evaluate`` and ``watch`` are allowed to import the code that a run's settings name."""
    return [word for name in settings if names_foreign_code(name, settings[name]) for word in ("--own", settings[name])]


def names_foreign_code(name: str, value: Any) -> bool:
    """Whether a setting's value names code to import that is not part of this package."""
    ours = [preset.get(name) for preset in PRESETS.values()]
    return name in ("env_id", "policy", "features") and ":" in str(value) and value not in ours
