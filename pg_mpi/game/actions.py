"""Actions by name, and which of them change places when a game's screen is turned upside down."""

from ale_py import Action

from pg_mpi.errors import UsageError
from pg_mpi.game.atari import NOOP, AtariGame, rom_name
from pg_mpi.game.survey import find_actions
from pg_mpi.parse import nearest
from pg_mpi.seeding import SURVEY, stream

PARTS = ("UP", "DOWN", "RIGHT", "LEFT", "FIRE")  # what the ALE's action names are made of
CODES = {name: action.value for name, action in Action.__members__.items()}

#: Games whose rules are the same upside down, with the actions that change places.
SYMMETRIES = {"ALE/Pong-v5": "RIGHT:LEFT,RIGHTFIRE:LEFTFIRE"}


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


def mirror_pairs(symmetry, env_id):
    """Pairs of action codes from ``--symmetry``; an empty list for none.

    Raises ``UsageError`` for an unknown game, an unknown action, or what is no pair.
    """
    rom_name(env_id)
    if symmetry == "auto":
        symmetry = SYMMETRIES.get(env_id, "off")
    if symmetry == "off":
        return []
    pairs = []
    for pair in symmetry.split(","):
        names = pair.strip().upper().split(":")
        if len(names) != 2:
            raise UsageError(f"--symmetry must be auto, off, or pairs such as RIGHT:LEFT, not {symmetry!r}")
        for name in names:
            if name not in CODES:
                raise UsageError(f"--symmetry names an unknown action {name!r}{nearest(name, CODES)}")
        pairs.append([CODES[name] for name in names])
    named = [code for pair in pairs for code in pair]
    if len(set(named)) < len(named):
        raise UsageError(f"--symmetry names an action twice: {symmetry}")
    return pairs


def mirrored(codes, pairs):
    """For each action, the index of the one it becomes in the mirror; actions without a pair stay."""
    partner = {a: b for pair in pairs for a, b in (pair, pair[::-1])}
    missing = [code for code in codes if partner.get(code, code) not in codes]
    if missing:
        raise UsageError("--symmetry exchanges an action of the policy for one that it lacks: see --actions")
    return [codes.index(partner.get(code, code)) for code in codes]


def parts(codes):
    """What each action is made of, 1.0 or 0.0: a list per action, over the parts that occur in any of them."""
    names = [Action(code).name for code in codes]
    used = [part for part in PARTS if any(part in name for name in names)]
    return [[float(part in name) for part in used] for name in names]
