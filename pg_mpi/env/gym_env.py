"""An environment of vectors as the player knows games, and what the policy sees of it.

Observations are vectors of numbers: a Box, flat, or one of n states as n zeros and ones. Actions are one of n, or a
vector of numbers in a Box, of which the policy's -1 and 1 are the bounds.
"""

import operator

import numpy as np

from pg_mpi.config.errors import CheckpointError, RunError, UsageError, one_line
from pg_mpi.env import env_state


class GymEnv:
    """An environment, as the player knows games.

    Args:
        rng: numpy Generator of the seeds of its games.
        squash: what brings an action's numbers to -1 to 1, a function of arrays.
        kept: whether its state can be saved.

    Attributes:
        screen: float32 (n,), the newest observation; a new array each time.
        own_state: whether the environment has verbs of its own for its state.
    """

    def __init__(self, env_id, env, spaces, rng, squash, kept):
        self._env_id, self._env, self._spaces, self._squash, self._kept = env_id, env, spaces, squash, kept
        self.own_state = all(callable(getattr(env, name, None)) for name in ("state", "restore"))
        if spaces.codes is None:
            self._low, self._high = (np.array(bound, spaces.dtype) for bound in (spaces.low, spaces.high))
            self._bounded = np.isfinite(self._low) & np.isfinite(self._high)
            low, high = np.where(self._bounded, self._low, -1.0), np.where(self._bounded, self._high, 1.0)
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
        observation, _ = self._told(self._env.reset(seed=int(self._rng.integers(2**31))), "reset", 2)
        self.screen = self._numbers(observation)
        self._terminated = self._truncated = False

    def act(self, action):
        """Take an action, a code or an array (d,); returns the reward. Raises ``RunError`` for what is no number."""
        if self._spaces.codes is None:
            action = self._taken(action)
        observation, given, self._terminated, self._truncated, _ = self._told(self._env.step(action), "step", 5)
        self.screen = self._numbers(observation)
        try:
            reward = float(given)
        except (TypeError, ValueError):
            reward = np.nan
        if not -np.inf < reward < np.inf:
            raise RunError(f"{self._env_id} gave a reward of {_short(given)}: an environment must give finite numbers")
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
            picture = np.asarray(self._env.render(), dtype=np.uint8)
        except Exception as error:  # any: what draws may be missing in many ways
            reason = one_line(error)
            raise UsageError(f"{self._env_id} has no pictures for --video: {reason}") from None
        if picture.ndim != 3:
            raise UsageError(f"{self._env_id} has no pictures for --video: its render gave {picture.shape}")
        return np.ascontiguousarray(picture)

    def state(self):
        """The game as bytes; none where it cannot be saved."""
        if not self._kept:
            return b""
        return bytes(memoryview(self._env.state())) if self.own_state else env_state.pack(self._env)

    def restore(self, state):
        """Continue from ``state`` bit for bit; without one, start a new game and return False."""
        if not state:
            self.reset()
            return False
        try:
            self._env.restore(state) if self.own_state else env_state.unpack(self._env, state)
        except Exception as error:  # any: the state may be anybody's, and so may the environment
            raise CheckpointError(
                f"the environment refused its saved state ({type(error).__name__}: {error})"
            ) from None
        self._terminated = self._truncated = False
        return True

    def close(self):
        """Let go of what the environment holds: windows, processes."""
        if callable(getattr(self._env, "close", None)):
            self._env.close()

    def _told(self, answer, verb, count):
        """What the environment's ``verb`` gave, if it is so many things. Raises ``RunError``."""
        if not isinstance(answer, (tuple, list)) or len(answer) != count:
            what = "(observation, reward, terminated, truncated, info)" if count == 5 else "(observation, info)"
            raise RunError(f"the {verb} of {self._env_id} gave {_short(answer)}, not {what}")
        return answer

    def _numbers(self, observation):
        """An observation as float32 (n,). Raises ``RunError`` for one that is none."""
        if self._spaces.states:
            return self._one_hot(observation)
        try:
            numbers = np.array(observation, dtype=np.float32)
        except (TypeError, ValueError):
            raise RunError(f"{self._env_id} gave the observation {_short(observation)}, not an array") from None
        if numbers.shape != self._spaces.shape:
            raise RunError(f"{self._env_id} gave an observation of shape {numbers.shape}, not {self._spaces.shape}")
        numbers = numbers.ravel()
        if not np.isfinite(numbers.sum()):  # one call for the usual case
            where = np.flatnonzero(~np.isfinite(numbers))
            if len(where):
                raise RunError(f"{self._env_id} gave an observation with {numbers[where[0]]} at place {where[0]}")
        return numbers

    def _one_hot(self, observation):
        """One of n states, as n zeros and ones."""
        first, states = self._spaces.first, self._spaces.states
        try:
            number = operator.index(observation) - first
        except TypeError:
            number = -1
        if not 0 <= number < states:
            raise RunError(f"{self._env_id} gave the observation {_short(observation)}, which is none of its {states}")
        one_hot = np.zeros(states, dtype=np.float32)
        one_hot[number] = 1
        return one_hot

    def _taken(self, action):
        """The numbers that the environment gets: within its bounds, where it has some."""
        squashed = np.where(self._bounded, self._squash(action), action)
        taken = (self._middle + self._reach * squashed).astype(self._low.dtype)
        return np.clip(taken, self._low, self._high, out=taken)


class VectorEncoder:
    """What the policy sees: the newest observation as it is, ``numbers`` long."""

    def __init__(self, numbers):
        self._bytes = 4 * numbers

    def start(self, screen):
        """The first observation of a game, float32 (n,)."""
        self._now = screen
        return screen

    step = start

    def state(self):
        """The current observation, float32 (n,), as bytes."""
        return self._now.tobytes()

    def restore(self, state):
        """Continue after ``state``; returns the observation that was current then."""
        if len(state) != self._bytes:
            raise ValueError(f"an observation of {len(state)} bytes")
        self._now = np.frombuffer(state, dtype=np.float32)
        return self._now


def _short(value):
    """Any value on one line."""
    text = one_line(value)
    return text if len(text) < 80 else f"{text[:76]} ..."


class IdentityActions:
    """The codes of actions that are numbers: each action is its own."""

    def __getitem__(self, action):
        return action
