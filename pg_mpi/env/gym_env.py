"""A Gymnasium or custom environment behind the emulator's interface, and its encoder.

Observations are vectors: a flattened Box, or a one-hot encoded Discrete. Actions are Discrete, or a vector in a Box
whose bounds are the policy's -1 and 1.
"""

import json
import operator
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from pg_mpi.config.errors import CheckpointError, RunError, UsageError, described, one_line, warn
from pg_mpi.env import env_state
from pg_mpi.env.spaces import Spaces


class GymEnv:
    """A Gymnasium or custom environment with the interface of ``AtariGame``.

    Args:
        rng: numpy Generator for the seeds of its games.
        squash: as ``--squash``, what maps an action's numbers to [-1, 1].
        kept: whether its state can be saved.

    Attributes:
        screen: float32 (n,), the latest observation; a new array each time.
        own_state: whether the environment has its own ``state`` and ``restore``.
    """

    def __init__(
        self, env_id: str, env: Any, spaces: Spaces, rng: np.random.Generator, squash: str, kept: bool
    ) -> None:
        self._env_id, self._env, self._spaces, self._squash, self._kept = env_id, env, spaces, squash, kept
        self.own_state = all(callable(getattr(env, name, None)) for name in ("state", "restore"))
        if spaces.codes is None:
            self._low, self._high = (np.array(bound, spaces.dtype) for bound in (spaces.low, spaces.high))
            self._bounded = np.isfinite(self._low) & np.isfinite(self._high)
            low, high = np.where(self._bounded, self._low, -1.0), np.where(self._bounded, self._high, 1.0)
            self._middle, self._reach = high / 2 + low / 2, high / 2 - low / 2  # without overflow
        self.draw_from(rng)
        self.reset()
        layers = env_state.plain(env) if kept and not self.own_state else []
        self._saved = [(k, name) for k, found in enumerate(layers) for name in found if found[name] is not None]

    def draw_from(self, rng: np.random.Generator) -> None:
        """Set the generator for the seeds of games."""
        self._rng = rng

    def reset(self) -> None:
        """Start a new game with a new seed."""
        observation, _ = self._result(self._env.reset(seed=int(self._rng.integers(2**31))), "reset", 2)
        self.screen = self._numbers(observation)
        self._terminated = self._truncated = False

    def step(self, action: Any) -> float:
        """Take an action, a code or an array (d,); return the reward. Raises ``RunError`` if it is not finite."""
        if self._spaces.codes is None:
            action = self._taken(action)
        observation, given, self._terminated, self._truncated, _ = self._result(self._env.step(action), "step", 5)
        self.screen = self._numbers(observation)
        try:
            reward = float(given)
        except (TypeError, ValueError):
            reward = np.nan
        if not -np.inf < reward < np.inf:
            raise RunError(f"{self._env_id} gave a reward of {_short(given)}: rewards must be finite numbers")
        return reward

    def over(self) -> bool:
        """Return True if the game has ended: terminated or truncated."""
        return bool(self._terminated or self._truncated)

    def truncated(self) -> bool:
        """Return True if a limit, not the rules, ended the game."""
        return bool(self._truncated and not self._terminated)

    def rgb(self) -> NDArray[np.uint8]:
        """Return the game in colour, uint8 (height, width, 3). Raises ``UsageError`` if it cannot be rendered."""
        try:
            picture = np.asarray(self._env.render(), dtype=np.uint8)
            if picture.ndim != 3:
                raise ValueError(f"render() gave shape {picture.shape}")
            return np.ascontiguousarray(picture)
        except Exception as error:  # any: a renderer can fail in many ways
            raise UsageError(
                f"{self._env_id} cannot be rendered: its render() must return uint8 (height, width, 3) "
                f"({described(error)})"
            ) from None

    def state(self) -> bytes:
        """Return the state of the game as bytes, empty if it cannot be saved."""
        if self._kept and self.own_state:
            return bytes(memoryview(self._env.state()))
        return json.dumps(layers).encode() if (layers := self._plain_layers()) else b""

    def restore(self, state: bytes) -> bool:
        """Continue from ``state`` bit for bit; return True. If it is empty, start a new game and return False.

        ``screen`` is stale until the next ``step``.
        """
        if not state or not (self.own_state or self._plain_layers()):
            self.reset()
            return False
        try:
            self._env.restore(state) if self.own_state else env_state.unpack(self._env, state)
        except Exception as error:  # any: neither the state nor the environment is trusted
            raise CheckpointError(
                f"{self._env_id} refused its saved state: resume with the version that wrote it, or start a new run "
                f"({described(error)})"
            ) from None
        self._terminated = self._truncated = False
        return True

    def _plain_layers(self) -> list[dict[str, Any]]:
        """Return ``env_state.plain``; empty if that is not the state, as when an attribute begins to hold objects."""
        if not self._kept:
            return []
        layers = env_state.plain(self._env)
        if lost := [name for k, name in self._saved if name not in layers[k]]:
            warn(f"{lost[0]} of {self._env_id} cannot be saved any more: a resumed run restarts unfinished games")
            self._kept, layers = False, []
        return layers

    def close(self) -> None:
        """Close the windows and processes of the environment."""
        close(self._env)

    def _result(self, answer: Any, verb: str, count: int) -> Sequence[Any]:
        """Return the result of ``verb``. Raises ``RunError`` if it does not have ``count`` items."""
        if not isinstance(answer, (tuple, list)) or len(answer) != count:
            what = "(observation, reward, terminated, truncated, info)" if count == 5 else "(observation, info)"
            raise RunError(f"the {verb} of {self._env_id} gave {_short(answer)}, not {what}")
        return answer

    def _numbers(self, observation: Any) -> NDArray[np.float32]:
        """Convert an observation to float32 (n,). Raises ``RunError`` for an invalid one."""
        if self._spaces.states:
            return self._one_hot(observation)
        try:
            numbers = np.array(observation, dtype=np.float32)
        except (TypeError, ValueError):
            raise RunError(f"{self._env_id} gave the observation {_short(observation)}, not an array") from None
        if numbers.shape != self._spaces.shape:
            raise RunError(f"{self._env_id} gave an observation of shape {numbers.shape}, not {self._spaces.shape}")
        numbers = numbers.ravel()
        if not np.isfinite(numbers).all():
            where = int(np.flatnonzero(~np.isfinite(numbers))[0])
            raise RunError(f"{self._env_id} gave an observation with {numbers[where]} at index {where}")
        return numbers

    def _one_hot(self, observation: Any) -> NDArray[np.float32]:
        """One-hot encode a discrete observation: float32 (n,)."""
        first, states = self._spaces.first, cast(int, self._spaces.states)
        try:
            number = operator.index(observation) - first
        except TypeError:
            number = -1
        if not 0 <= number < states:
            raise RunError(f"{self._env_id} gave the observation {_short(observation)}, not one of its {states} states")
        one_hot = np.zeros(states, dtype=np.float32)
        one_hot[number] = 1
        return one_hot

    def _taken(self, action: NDArray[Any]) -> NDArray[Any]:
        """Scale an action to the environment's bounds, where it has any."""
        squashed = np.tanh(action) if self._squash == "tanh" else np.clip(action, -1.0, 1.0)
        squashed = np.where(self._bounded, squashed, action)
        taken = (self._middle + self._reach * squashed).astype(self._low.dtype)
        return np.clip(taken, self._low, self._high, out=taken)


class VectorEncoder:
    """Encoder that returns the latest observation unchanged, float32 (``size``,)."""

    def __init__(self, numbers: int) -> None:
        self.size = numbers

    def start(self, screen: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the observation, float32 (n,)."""
        self._now = screen
        return screen

    step = start

    def state(self) -> bytes:
        """Return the current observation, float32 (n,), as bytes."""
        return self._now.tobytes()

    def restore(self, state: bytes) -> NDArray[np.float32]:
        """Continue from ``state``; return the observation that was current then. Raises ValueError for another size."""
        if len(state) != 4 * self.size:
            raise ValueError(f"the saved observation has {len(state)} bytes, not {4 * self.size}")
        self._now = np.frombuffer(state, dtype=np.float32)
        return self._now


def close(env: Any) -> None:
    """Close an environment, if it can be closed."""
    if callable(getattr(env, "close", None)):
        env.close()


def _short(value: object) -> str:
    """Return a value as one line of at most 80 characters."""
    text = one_line(value)
    return text if len(text) < 80 else f"{text[:76]} ..."


class IdentityActions:
    """Codes of continuous actions: each action is its own code."""

    def __getitem__(self, action: Any) -> Any:
        return action
