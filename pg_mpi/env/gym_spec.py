"""Specification of a Gymnasium or custom environment."""

import contextlib
import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import gymnasium
import numpy as np
from numpy.typing import NDArray

from pg_mpi.config.errors import UsageError, counted, described, one_line, reportable, user_code
from pg_mpi.config.parsers import imported, nearest
from pg_mpi.config.random_streams import CALIBRATION, stream
from pg_mpi.config.settings import TrainConfig
from pg_mpi.env import spaces as plain_spaces
from pg_mpi.env.gym_env import GymEnv, IdentityActions, VectorEncoder, close
from pg_mpi.env.spaces import Spaces, spaces_of
from pg_mpi.features.encoder import Encoder

MOST_NUMBERS = 5000  # limit on the size of an observation
MOST_BYTES = 1 << 20  # limit on a saved state. Every env saves one in every round
TRIAL = (30, 7, 200)  # steps: before the save, of the env that restores it, and after the restore


@dataclasses.dataclass(frozen=True)
class GymSpec:
    """Specification of a Gymnasium or custom environment.

    Attributes:
        kept: whether its state can be saved, found by a trial.
    """

    env_id: str
    spaces: Spaces
    kept: bool

    sparse: ClassVar[bool] = False  # observations are vectors

    @property
    def gaussian(self) -> bool:
        """Whether actions are continuous, drawn from a Gaussian."""
        return self.spaces.codes is None

    @property
    def codes(self) -> list[int] | IdentityActions:
        """The environment's code of each policy action."""
        return IdentityActions() if self.spaces.codes is None else self.spaces.codes

    def origin(self, config: TrainConfig) -> NDArray[np.float32]:
        """Return a typical observation, float32 (n,), for the running mean to start from."""
        with contextlib.closing(self.make_game(config, stream(0, CALIBRATION))) as game:
            return game.screen

    def try_out(self, config: TrainConfig) -> None:
        """Begin a game. Raises ``UsageError`` if the environment fails."""
        with _trying(self.env_id):
            self.origin(config)

    def make_game(self, config: TrainConfig, rng: np.random.Generator, film: bool = False) -> GymEnv:
        """Create an environment with a new game. ``film``: whether it renders images."""
        env = make(self.env_id, film)
        try:
            if spaces_of(env, self.env_id) != self.spaces:
                changed = f"the spaces of {self.env_id} have changed since the run began"
                raise UsageError(f"{changed}: use its earlier version, or a new --run-dir")
            return GymEnv(self.env_id, env, self.spaces, rng, config.squash, self.kept)
        except BaseException:
            close(env)  # its processes would keep this one from exiting
            raise

    def make_encoder(self, config: TrainConfig) -> Encoder:
        """Create an encoder of the environment's observations."""
        return VectorEncoder(self.spaces.numbers)

    def describe(self, config: TrainConfig) -> list[str]:
        """Return lines for the banner: the actions, the observations, then warnings."""
        spaces: Any = self.spaces
        codes = spaces.codes
        does = f"actions of {counted(len(spaces.low), 'number')}" if codes is None else f"{len(codes)} actions"
        lines = [does, f"{counted(spaces.numbers, 'number')} observed"]
        if not self.kept:
            lines.append(f"the state of {self.env_id} cannot be saved: a resumed run restarts unfinished games")
        return lines

    def saved(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return (arrays, facts) for a checkpoint; see ``restored``."""
        return {}, {"environment": {"spaces": dataclasses.asdict(self.spaces), "kept": self.kept}}


def check(config: TrainConfig) -> None:
    """Raise ``UsageError`` for an unknown or unsupported environment."""
    with _trying(config.env_id):
        numbers = _spaces(config.env_id).numbers
    if numbers > MOST_NUMBERS and config.policy == "usual":
        raise UsageError(
            f"{config.env_id} has observations of {numbers:,} numbers, more than the {MOST_NUMBERS:,} that the default "
            "policy supports: use your own --policy, or an Atari id such as ALE/Pong-v5"
        )


def make_spec(config: TrainConfig) -> GymSpec:
    """Return the ``GymSpec`` of ``config``. Raises ``UsageError`` for an unknown, unsupported or faulty environment."""
    with _trying(config.env_id):
        known = GymSpec(config.env_id, _spaces(config.env_id), kept=True)
        return dataclasses.replace(known, kept=_can_be_kept(known, config))


def _trying(env_id: str) -> contextlib.AbstractContextManager[None]:
    """Context that turns an error of the environment into a ``UsageError``."""
    return user_code(f"--env-id {env_id} cannot be used")


def _spaces(env_id: str) -> Spaces:
    env = make(env_id)
    try:
        return spaces_of(env, env_id)
    finally:
        close(env)


def restored(arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> GymSpec:
    """Restore a ``GymSpec`` from a checkpoint. Raises ValueError, KeyError or TypeError for malformed data."""
    saved = facts["environment"]
    return GymSpec(str(facts["identity"]["env_id"]), plain_spaces.restored(saved["spaces"]), bool(saved["kept"]))


def make(env_id: str, film: bool = False) -> Any:
    """Create an environment from a Gymnasium id or ``package.module:function``. Raises ``UsageError``."""
    if ":" in env_id:
        make_own = imported(env_id, "--env-id")
        if callable(make_own):
            return make_own()
        if make_own is not None:
            raise UsageError(f"--env-id {env_id} must name a function or class, not {type(make_own).__name__}")
    options: dict[str, Any] = {"render_mode": "rgb_array"} if film else {}
    try:
        return gymnasium.make(env_id, disable_env_checker=True, **options)
    except gymnasium.error.UnregisteredEnv as error:
        from pg_mpi.env.atari import atari_ids

        atari = f"ALE/{env_id.partition('-')[0]}-v5"
        meant = f" (did you mean {atari}?)" if atari in atari_ids() else nearest(env_id, [*gymnasium.registry])
        raise UsageError(
            f"unknown env {env_id!r}{meant} ({one_line(error)}): use a Gymnasium id such as CartPole-v1, an Atari "
            "id such as ALE/Pong-v5, or package.module:function"
        ) from None
    except Exception as error:  # any: construction can fail in many ways
        if reportable(error):  # the machine's, as a disk error
            raise
        raise UsageError(f"{env_id} cannot be created: {described(error)}") from None


def _can_be_kept(known: GymSpec, config: TrainConfig) -> bool:
    """Test whether a fresh and a used environment continue exactly from the saved state of another.

    Raises what the environment itself raises, and what its own ``state`` and ``restore`` raise.
    """
    with contextlib.ExitStack() as stack:
        streams = [stream(0, CALIBRATION, env) for env in range(3)]
        one, used, fresh = (stack.enter_context(contextlib.closing(known.make_game(config, rng))) for rng in streams)
        before, there, after = TRIAL
        _play_randomly(one, known.spaces, before, stream(0, CALIBRATION, 3))
        _play_randomly(used, known.spaces, there, stream(0, CALIBRATION, 4))
        state = one.state()
        if len(state) > MOST_BYTES:
            return False
        expected = _play_randomly(one, known.spaces, after, stream(0, CALIBRATION, 5))
        for game in (used, fresh):
            try:
                game.restore(state)
                if _play_randomly(game, known.spaces, after, stream(0, CALIBRATION, 5)) != expected:
                    return False
            except Exception:  # any: the state cannot be saved
                if game.own_state:
                    raise
                return False
        return True


def _play_randomly(
    game: GymEnv, spaces: Any, steps: int, rng: np.random.Generator
) -> list[tuple[float, bool, bool, bytes]]:
    """Play random steps and return a list of their results. A new game follows one that ends."""
    played = []
    for _ in range(steps):
        gaussian = spaces.codes is None
        action = rng.standard_normal(len(spaces.low)) if gaussian else spaces.codes[rng.integers(len(spaces.codes))]
        played.append((game.step(action), game.over(), game.truncated(), game.screen.tobytes()))
        if game.over():
            game.draw_from(stream(int(rng.integers(2**31)), CALIBRATION))
            game.reset()
    return played
