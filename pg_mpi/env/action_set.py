"""Actions by name."""

from ale_py import Action

from pg_mpi.config.errors import UsageError
from pg_mpi.config.parsers import nearest
from pg_mpi.config.random_streams import SURVEY, stream
from pg_mpi.env.atari import NOOP, AtariGame
from pg_mpi.env.calibration import find_actions

PARTS = ("UP", "DOWN", "RIGHT", "LEFT", "FIRE")  # what the ALE's action names are made of
CODES = {name: action.value for name, action in Action.__members__.items()}


def choose(actions, env_id, frame_skip, mode=None, difficulty=None):
    """The ALE codes of the policy's actions, from ``--actions``. Raises ``UsageError`` for an unknown name."""
    if actions == "minimal":
        return minimal(env_id)
    if actions not in ("distinct", "pair"):
        return _named(actions)
    codes = find_actions(env_id, frame_skip, mode, difficulty)
    return [code for code in codes if code != NOOP][:2] if actions == "pair" else codes


def _named(actions):
    """Codes of action names with commas between them."""
    names = [name.strip().upper() for name in actions.split(",")]
    for name in names:
        if name not in CODES:
            raise UsageError(
                f"--actions names an unknown action {name!r}{nearest(name, CODES)}: give minimal, distinct, "
                "pair, or names such as NOOP,RIGHT,LEFT"
            )
    if len(set(names)) < len(names):
        raise UsageError(f"--actions names an action twice: {actions}")
    return [CODES[name] for name in names]


def minimal(env_id):
    """The ALE's minimal action set of a game, as codes."""
    return AtariGame(env_id, stream(0, SURVEY)).actions


def parts(codes):
    """What each action is made of, 1.0 or 0.0: a list per action, over the parts that occur in any of them."""
    names = [Action(code).name for code in codes]
    used = [part for part in PARTS if any(part in name for name in names)]
    return [[float(part in name) for part in used] for name in names]
