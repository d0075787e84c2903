"""Action sets: ``--actions`` to ALE action codes."""

from ale_py import Action

from pg_mpi.config.errors import UsageError
from pg_mpi.config.parsers import nearest
from pg_mpi.config.random_streams import CALIBRATION, stream
from pg_mpi.config.settings import TrainConfig
from pg_mpi.env.atari import AtariGame

CODES = {name: action.value for name, action in Action.__members__.items()}


def choose(config: TrainConfig) -> list[int]:
    """Return the ALE codes that ``--actions`` selects. Raises ``UsageError`` for an unknown or repeated name."""
    if config.actions == "minimal":
        return AtariGame(config.env_id, stream(0, CALIBRATION)).actions
    names = [name.strip().upper() for name in config.actions.split(",")]
    for name in names:
        if name not in CODES:
            raise UsageError(
                f"--actions names an unknown action {name!r}{nearest(name, CODES)}: use minimal, or "
                "names such as NOOP,RIGHT,LEFT"
            )
    if len(set(names)) < len(names):
        raise UsageError(f"--actions names an action twice ({config.actions}): name each once")
    return [CODES[name] for name in names]
