"""Action sets: ``--actions`` to ALE action codes."""

from ale_py import Action

from pg_mpi.config.errors import UsageError
from pg_mpi.config.parsers import nearest
from pg_mpi.config.random_streams import CALIBRATION, stream
from pg_mpi.config.settings import TrainConfig
from pg_mpi.env.atari import NOOP, AtariGame
from pg_mpi.env.calibration import find_actions

CODES = {name: action.value for name, action in Action.__members__.items()}


def choose(config: TrainConfig) -> list[int]:
    """Return the ALE codes that ``--actions`` selects. Raises ``UsageError`` for an unknown or repeated name."""
    if config.actions == "minimal":
        return AtariGame(config.env_id, stream(0, CALIBRATION)).actions
    if config.actions != "pair":
        return _named(config.actions)
    codes = find_actions(config.env_id, config.frame_skip, config.mode, config.difficulty)
    return [code for code in codes if code != NOOP][:2]


def _named(actions: str) -> list[int]:
    """Return the codes of comma-separated action names."""
    names = [name.strip().upper() for name in actions.split(",")]
    for name in names:
        if name not in CODES:
            raise UsageError(
                f"--actions names an unknown action {name!r}{nearest(name, CODES)}: use minimal, pair, "
                "or names such as NOOP,RIGHT,LEFT"
            )
    if len(set(names)) < len(names):
        raise UsageError(f"--actions names an action twice: {actions}")
    return [CODES[name] for name in names]
