"""Any environment with Gymnasium's ``reset`` and ``step``, from Gymnasium's registry or of one's own, as a game.

Observations are vectors of numbers: a Box, flat, or one of n states as n zeros and ones. Actions are one of n, or a
vector of numbers in a Box, of which the policy's -1 and 1 are the bounds.
"""

import dataclasses
from typing import ClassVar

import gymnasium
import numpy as np

from pg_mpi.errors import CheckpointError, RunError, UsageError
from pg_mpi.game import plain
from pg_mpi.game.atari import atari_ids
from pg_mpi.parse import imported, nearest
from pg_mpi.seeding import SURVEY, stream

SUPPORTED = "supported are Box and Discrete observations, and Discrete and Box actions"
MOST_NUMBERS = 5000  # of an observation
TRIAL = (30, 7, 200)  # steps: of an env that is saved, of the one that takes over, and of both from there on


@dataclasses.dataclass(frozen=True)
class Spaces:
    """What an environment shows and takes.

    Attributes:
        shape: of an observation; ``states``: how many there are of a Discrete one, the first being ``first``, or None.
        low, high: bounds of an action's numbers, tuples; None for a Discrete one.
        codes: the environment's name of each action of a Discrete one; None for a Box.
    """

    shape: tuple
    states: int | None
    first: int
    low: tuple | None
    high: tuple | None
    codes: list | None

    @property
    def numbers(self):
        """How many numbers an observation is."""
        return self.states or int(np.prod(self.shape, dtype=np.int64))


class Game:
    """An environment, as the player knows games.

    Args:
        rng: numpy Generator of the seeds of its games.
        squash: what brings an action's numbers to -1 to 1, a function of arrays.
        kept: whether its state can be saved.

    Attributes:
        screen: float32 (n,), the newest observation; a new array each time.
    """

    def __init__(self, env_id, env, spaces, rng, squash, kept):
        self._env_id, self._env, self._spaces, self._squash, self._kept = env_id, env, spaces, squash, kept
        self._own = all(callable(getattr(env, name, None)) for name in ("state", "restore"))  # verbs of its own
        if spaces.codes is None:
            low, high = np.array(spaces.low), np.array(spaces.high)
            self._bounded = np.isfinite(low) & np.isfinite(high)
            low, high = np.where(self._bounded, low, -1.0), np.where(self._bounded, high, 1.0)
            self._middle, self._reach = (high + low) / 2, (high - low) / 2
        self.draw_from(rng)
        self.reset()

    def draw_from(self, rng):
        """Let a stream decide about the seeds of games from now on."""
        self._rng = rng

    def lives(self):
        """None are counted."""
        return 0

    def reset(self):
        """Start a new game, with a seed of its own."""
        observation, _ = self._env.reset(seed=int(self._rng.integers(2**31)))
        self.screen = self._numbers(observation)
        self._terminated = self._truncated = False

    def act(self, action):
        """Take an action, a code or an array (d,); returns the reward. Raises ``RunError`` for what is no number."""
        if self._spaces.codes is None:
            action = self._taken(action)
        observation, reward, self._terminated, self._truncated, _ = self._env.step(action)
        self.screen = self._numbers(observation)
        reward = float(reward)
        if not -np.inf < reward < np.inf:
            raise RunError(f"{self._env_id} gave a reward of {reward}: an environment must give finite numbers")
        return reward

    def over(self):
        """True when the game has ended, by its rules or cut off."""
        return bool(self._terminated or self._truncated)

    def truncated(self):
        """True when a limit, not the rules, ended the game."""
        return bool(self._truncated and not self._terminated)

    def rgb(self):
        """The game in colour: uint8 (height, width, 3). Raises ``UsageError`` where there is no picture."""
        try:
            picture = self._env.render()
        except (gymnasium.error.DependencyNotInstalled, AttributeError) as error:
            raise UsageError(f"{self._env_id} has no pictures for --video: {_line(error)}") from None
        if np.ndim(picture) != 3:
            raise UsageError(f"{self._env_id} has no pictures for --video: its render gave none in colour")
        return np.ascontiguousarray(picture, dtype=np.uint8)

    def state(self):
        """The game as bytes; none where it cannot be saved."""
        if not self._kept:
            return b""
        return self._env.state() if self._own else plain.pack(self._env)

    def restore(self, state):
        """Continue from ``state`` bit for bit; without one, start a new game and return False."""
        if not state:
            self.reset()
            return False
        try:
            self._env.restore(state) if self._own else plain.unpack(self._env, state)
        except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
            raise CheckpointError(f"the environment refused its saved state: {error}") from None
        self._terminated = self._truncated = False
        return True

    def _numbers(self, observation):
        """An observation as float32 (n,). Raises ``RunError`` for one that is none."""
        if self._spaces.states:
            one_hot = np.zeros(self._spaces.states, dtype=np.float32)
            one_hot[int(observation) - self._spaces.first] = 1
            return one_hot
        numbers = np.array(observation, dtype=np.float32)
        if numbers.shape != self._spaces.shape:
            raise RunError(f"{self._env_id} gave an observation of shape {numbers.shape}, not {self._spaces.shape}")
        numbers = numbers.ravel()
        if not np.isfinite(numbers.sum()):  # one call for the usual case
            where = np.flatnonzero(~np.isfinite(numbers))
            if len(where):
                raise RunError(f"{self._env_id} gave an observation with {numbers[where[0]]} at place {where[0]}")
        return numbers

    def _taken(self, action):
        """The numbers that the environment gets: within its bounds, where it has some."""
        squashed = np.where(self._bounded, self._squash(action), action)
        taken = self._middle + self._reach * squashed
        return taken.astype(np.float32)


class Encoder:
    """What the policy sees: the newest observation as it is."""

    def start(self, screen):
        """The first observation of a game, float32 (n,)."""
        self._now = screen
        return screen

    step = start

    def state(self):
        """The current observation: uint8 (4 * n,)."""
        return self._now.view(np.uint8)

    def restore(self, state):
        """Continue after ``state``; returns the observation that was current then."""
        self._now = np.frombuffer(state.tobytes(), dtype=np.float32)
        return self._now


class AsItIs:
    """The codes of actions that are numbers: each action is its own."""

    def __getitem__(self, action):
        return action


@dataclasses.dataclass(frozen=True)
class Environment:
    """What a run knows of an environment before it plays.

    Attributes:
        kept: whether its state can be saved, found by trying.
    """

    env_id: str
    spaces: Spaces
    kept: bool

    sparse: ClassVar = False

    @property
    def gaussian(self):
        """Whether actions are numbers, drawn from a Gaussian."""
        return self.spaces.codes is None

    def inputs(self, config):
        """How many numbers an observation is."""
        return self.spaces.numbers

    @property
    def codes(self):
        """The environment's name of each of the policy's actions."""
        return AsItIs() if self.spaces.codes is None else self.spaces.codes

    def origin(self, config):
        """An observation such as there are: float32 (n,)."""
        return self.make_game(config, stream(0, SURVEY)).screen

    @property
    def encoded_bytes(self):
        """Shape of an encoder's state."""
        return (4 * self.spaces.numbers,)

    def make_game(self, config, rng, film=False):
        """An environment with a new game; ``film``: one that shows pictures."""
        env = make(self.env_id, film)
        if spaces_of(env, self.env_id) != self.spaces:
            raise UsageError(f"{self.env_id} has other spaces than when the run began")
        squash = np.tanh if config.squash == "tanh" else _clip
        return Game(self.env_id, env, self.spaces, rng, squash, self.kept)

    def make_encoder(self, config):
        """What turns its observations into the policy's."""
        return Encoder()

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
        s = self.spaces
        bounds = None if s.codes is not None else [s.low, s.high]
        spaces = {"shape": s.shape, "states": s.states, "first": s.first, "bounds": bounds, "codes": s.codes}
        return {}, {"environment": {**spaces, "kept": self.kept}}


def check(config):
    """Raise ``UsageError`` for an environment that does not exist or is not supported."""
    numbers = spaces_of(make(config.env_id), config.env_id).numbers
    if numbers > MOST_NUMBERS and config.policy == "usual":
        raise UsageError(
            f"{config.env_id} shows {numbers:,} numbers at a time, as an image does, which is too much for our policy "
            "of vectors: bring your own with --policy; Atari games are ALE/Pong-v5 and so on"
        )


def learn(config):
    """Look at the environment of ``config``. Raises ``UsageError`` for one that does not exist or is not supported."""
    env = make(config.env_id)
    spaces = spaces_of(env, config.env_id)
    known = Environment(config.env_id, spaces, kept=True)
    return dataclasses.replace(known, kept=_can_be_kept(known, config))


def restored(arrays, facts):
    """The ``Environment`` that a checkpoint holds. Raises nearly anything for what is none."""
    saved = facts["environment"]
    low, high = (None, None) if saved["bounds"] is None else (tuple(map(float, b)) for b in saved["bounds"])
    codes = None if saved["codes"] is None else [int(code) for code in saved["codes"]]
    states = None if saved["states"] is None else int(saved["states"])
    shape = tuple(int(size) for size in saved["shape"])
    spaces = Spaces(shape, states, int(saved["first"]), low, high, codes)
    if (codes is None) == (low is None) or spaces.numbers < 1:
        raise ValueError(f"spaces {saved}")
    return Environment(str(facts["identity"]["env_id"]), spaces, bool(saved["kept"]))


def make(env_id, film=False):
    """An environment by its name: of Gymnasium's registry, or ``package.module:function``. Raises ``UsageError``."""
    if ":" in env_id:
        make_own = imported(env_id, "--env-id")
        if make_own is not None:
            return make_own()
    try:
        return gymnasium.make(env_id, disable_env_checker=True, render_mode="rgb_array" if film else None)
    except gymnasium.error.UnregisteredEnv as error:
        atari = f"ALE/{env_id.partition('-')[0]}-v5"
        meant = f" (did you mean {atari}?)" if atari in atari_ids() else nearest(env_id, [*gymnasium.registry])
        raise UsageError(
            f"unknown env {env_id!r}{meant} ({_line(error)}): give an id of Gymnasium, as CartPole-v1, of an Atari "
            "game, as ALE/Pong-v5, or package.module:function"
        ) from None
    except gymnasium.error.Error as error:
        raise UsageError(f"{env_id} cannot be made: {_line(error)}") from None


def spaces_of(env, env_id):
    """The ``Spaces`` of an environment. Raises ``UsageError`` for those that are not supported."""
    seen, taken = getattr(env, "observation_space", None), getattr(env, "action_space", None)
    shape, states, first = (), None, 0
    if _is_discrete(seen):
        states, first = int(seen.n), int(getattr(seen, "start", 0))
    elif _is_box(seen):
        shape = tuple(int(size) for size in seen.shape)
    else:
        raise UsageError(f"{env_id} shows observations of {seen}: {SUPPORTED}")
    if _is_discrete(taken):
        first_action = int(getattr(taken, "start", 0))
        spaces = Spaces(shape, states, first, None, None, list(range(first_action, first_action + int(taken.n))))
    elif _is_box(taken) and len(taken.shape) == 1:
        low, high = (tuple(np.asarray(bound, dtype=np.float64).tolist()) for bound in (taken.low, taken.high))
        spaces = Spaces(shape, states, first, low, high, None)
    else:
        raise UsageError(f"{env_id} takes actions of {taken}: {SUPPORTED}")
    if spaces.numbers < 1 or (spaces.codes is not None and len(spaces.codes) < 2) or spaces.low == ():
        raise UsageError(f"{env_id} leaves a policy nothing to see, or no choice: {seen}, {taken}")
    return spaces


def _is_discrete(space):
    return hasattr(space, "n") and np.ndim(space.n) == 0


def _is_box(space):
    numbers = getattr(space, "dtype", None)
    return hasattr(space, "low") and hasattr(space, "shape") and (numbers is None or np.dtype(numbers).kind in "fiub")


def _can_be_kept(known, config):
    """Whether one environment goes on exactly where another one was saved: found by trying."""
    rng, spaces = stream(0, SURVEY), known.spaces
    one, other = (known.make_game(config, stream(0, SURVEY, env)) for env in range(2))

    def steps(count, *games):
        for _ in range(count):
            action = rng.standard_normal(len(spaces.low)) if spaces.codes is None else rng.choice(spaces.codes)
            yield [(game.act(action), game.over(), game.truncated(), game.screen.tobytes()) for game in games]
            if games[0].over():
                seed = int(rng.integers(2**31))
                for game in games:
                    game.draw_from(stream(seed, SURVEY))
                    game.reset()

    before, there, after = TRIAL
    for game, count in ((one, before), (other, there)):
        for _ in steps(count, game):
            pass
    try:
        other.restore(one.state())
    except CheckpointError:
        return False
    return all(mine == theirs for mine, theirs in steps(after, one, other))


def _numbers(count):
    return f"{count} number{'s' if count > 1 else ''}"


def _clip(action):
    return np.clip(action, -1.0, 1.0)


def _line(error):
    """What an error says, on one line."""
    return " ".join(str(error).split())
