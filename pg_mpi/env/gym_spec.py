"""What a run knows of an environment before it plays: one of Gymnasium's registry, or of one's own."""

import contextlib
import dataclasses
from typing import ClassVar

import gymnasium
import numpy as np

from pg_mpi.config.errors import UsageError, one_line
from pg_mpi.config.parsers import imported, nearest
from pg_mpi.config.random_streams import SURVEY, stream
from pg_mpi.env import spaces as plain_spaces
from pg_mpi.env.atari import atari_ids
from pg_mpi.env.gym_env import GymEnv, IdentityActions, VectorEncoder
from pg_mpi.env.spaces import Spaces, spaces_of

MOST_NUMBERS = 5000  # of an observation
MOST_BYTES = 1 << 20  # of a state that is saved, in every round and for every env
TRIAL = (30, 7, 200)  # steps: of an env that is saved, of one of those that take over, and of all from there on


@dataclasses.dataclass(frozen=True)
class GymSpec:
    """What a run knows of an environment before it plays.

    Attributes:
        kept: whether its state can be saved, found by trying.
    """

    env_id: str
    spaces: Spaces
    kept: bool

    sparse: ClassVar = False  # an observation is a vector
    recovers: ClassVar = False  # what it raises is a mistake in it

    @property
    def gaussian(self):
        """Whether actions are numbers, drawn from a Gaussian."""
        return self.spaces.codes is None

    @property
    def codes(self):
        """The environment's name of each of the policy's actions."""
        return IdentityActions() if self.spaces.codes is None else self.spaces.codes

    def inputs(self, config):
        """How many numbers an observation is."""
        return self.spaces.numbers

    def origin(self, config):
        """An observation such as there are: float32 (n,)."""
        with contextlib.closing(self.make_game(config, stream(0, SURVEY))) as game:
            return game.screen

    def try_features(self, config):
        """Nothing: what the policy sees are the environment's own observations."""

    def make_game(self, config, rng, film=False):
        """An environment with a new game; ``film``: one that shows pictures."""
        env = make(self.env_id, film)
        if spaces_of(env, self.env_id) != self.spaces:
            raise UsageError(f"{self.env_id} has other spaces than when the run began")
        return GymEnv(self.env_id, env, self.spaces, rng, np.tanh if config.squash == "tanh" else _clip, self.kept)

    def make_encoder(self, config):
        """What turns its observations into the policy's."""
        return VectorEncoder(self.spaces.numbers)

    def says(self, config):
        """What a policy does here, what it sees, and lines on what else the user should know."""
        spaces = self.spaces
        does = f"actions of {_numbers(len(spaces.low))}" if spaces.codes is None else f"{len(spaces.codes)} actions"
        lines = [does, f"{_numbers(spaces.numbers)} observed"]
        if not self.kept:
            lines.append(f"the state of {self.env_id} cannot be saved: a resumed run starts games under way anew")
        return lines

    def saved(self):
        """(arrays, facts) for a checkpoint, see ``restored``."""
        return {}, {"environment": {"spaces": self.spaces.saved(), "kept": self.kept}}


def check(config):
    """Raise ``UsageError`` for an environment that does not exist or is not supported."""
    numbers = _spaces(config.env_id).numbers
    if numbers > MOST_NUMBERS and config.policy == "usual":
        raise UsageError(
            f"{config.env_id} shows {numbers:,} numbers at a time, as an image does, which is too much for our policy "
            "of vectors: bring your own with --policy; Atari games are ALE/Pong-v5 and so on"
        )


def learn(config):
    """Look at the environment of ``config``. Raises ``UsageError`` for one that does not exist or is not supported."""
    known = GymSpec(config.env_id, _spaces(config.env_id), kept=True)
    return dataclasses.replace(known, kept=_can_be_kept(known, config))


def _spaces(env_id):
    env = make(env_id)
    try:
        return spaces_of(env, env_id)
    finally:
        if callable(getattr(env, "close", None)):
            env.close()


def restored(arrays, facts):
    """The ``GymSpec`` that a checkpoint holds. Raises nearly anything for what is none."""
    saved = facts["environment"]
    return GymSpec(str(facts["identity"]["env_id"]), plain_spaces.restored(saved["spaces"]), bool(saved["kept"]))


def make(env_id, film=False):
    """An environment by its name: of Gymnasium's registry, or ``package.module:function``. Raises ``UsageError``."""
    if ":" in env_id:
        make_own = imported(env_id, "--env-id")
        if callable(make_own):
            return make_own()
        if make_own is not None:
            raise UsageError(f"--env-id {env_id} names no function or class, but {type(make_own).__name__}")
    try:
        return gymnasium.make(env_id, disable_env_checker=True, **({"render_mode": "rgb_array"} if film else {}))
    except gymnasium.error.UnregisteredEnv as error:
        atari = f"ALE/{env_id.partition('-')[0]}-v5"
        meant = f" (did you mean {atari}?)" if atari in atari_ids() else nearest(env_id, [*gymnasium.registry])
        raise UsageError(
            f"unknown env {env_id!r}{meant} ({one_line(error)}): give an id of Gymnasium, as CartPole-v1, of an Atari "
            "game, as ALE/Pong-v5, or package.module:function"
        ) from None
    except Exception as error:  # any: what it is made with may be missing in many ways
        raise UsageError(f"{env_id} cannot be made: {type(error).__name__}: {one_line(error)}") from None


def _can_be_kept(known, config):
    """Whether others go on exactly where one environment was saved, a fresh one and a used one: found by trying.

    Raises what the environment raises by itself, and what its own ``state`` and ``restore`` do.
    """
    with contextlib.ExitStack() as stack:
        games = [known.make_game(config, stream(0, SURVEY, env)) for env in range(3)]
        for game in games:
            stack.callback(game.close)
        one, used, fresh = games
        before, there, after = TRIAL
        _lived(one, known.spaces, before, stream(0, SURVEY, 3))
        _lived(used, known.spaces, there, stream(0, SURVEY, 4))
        state = one.state()
        if len(state) > MOST_BYTES:
            return False
        told = _lived(one, known.spaces, after, stream(0, SURVEY, 5))
        for game in (used, fresh):
            try:
                game.restore(state)
                if _lived(game, known.spaces, after, stream(0, SURVEY, 5)) != told:
                    return False
            except Exception:  # any: then it cannot be kept
                if game.own_state:
                    raise
                return False
        return True


def _lived(game, spaces, steps, rng):
    """What a game tells in so many random steps: a list; games that end are followed by new ones."""
    told = []
    for _ in range(steps):
        gaussian = spaces.codes is None
        action = rng.standard_normal(len(spaces.low)) if gaussian else spaces.codes[rng.integers(len(spaces.codes))]
        told.append((game.act(action), game.over(), game.truncated(), game.screen.tobytes()))
        if game.over():
            game.draw_from(stream(int(rng.integers(2**31)), SURVEY))
            game.reset()
    return told


def _clip(action):
    return np.clip(action, -1.0, 1.0)


def _numbers(count):
    return f"{count} number{'s' if count > 1 else ''}"
