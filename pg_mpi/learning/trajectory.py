"""The steps of one env between two updates: recorded step by step, then read as arrays."""

from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from pg_mpi.config.array_types import Doubles

Flags = NDArray[np.bool_]


class Trajectory:
    """Steps of one env in time order.

    Steps are appended to lists, which is cheaper between emulator steps than writing into arrays. The arrays are made
    at first access; do not record after that.

    Attributes:
        length: number of steps.
        seen: the observation of each step.
        observed: int32, the active inputs of all steps, concatenated; ``counts`` int64 (length,): their number.
        actions: int64 (length,), index into the policy's actions; or float (length, d) for continuous actions.
        log_probs: float64 (length,), log-probability of the action under the policy that drew it.
        values: float64 (length,), value estimate of the state before the step.
        rewards: float64 (length,), reward of the step, as the game gave it.
        ahead: (step, value): the discounted value after a step that truncates its game.
        ends: bool (length,), no later reward counts for this step's return.
        last_value: value of the state after the last step, for returns that the update cuts.
        games: (score, steps) of the finished games.
        cuts: the numbers of steps after which a game ended, or was lost.
        errors: number of emulator failures.
    """

    def __init__(self) -> None:
        self.seen: list[Any] = []
        self._done: list[Any] = []
        self._steps: list[tuple[float, float, float, bool]] = []
        self.ahead: list[tuple[int, float]] = []
        self.games: list[tuple[float, int]] = []
        self.cuts: list[int] = []
        self.last_value, self.errors = 0.0, 0

    def record(self, observation: Any, action: Any, log_prob: float, value: float, reward: float, end: bool) -> None:
        """Append one step. ``observation``: the policy's input, such as active inputs, int (n,); not copied."""
        self.seen.append(observation)
        self._done.append(action)
        self._steps.append((log_prob, value, reward, end))

    def bootstrap(self, value: float) -> None:
        """Bootstrap the last step, which is an end, with the discounted ``value``."""
        self.ahead.append((self.length - 1, value))

    def truncate(self, ahead: float) -> None:
        """Make the last step an end, with the discounted bootstrap value ``ahead``."""
        if self._steps and not self.ended:
            self.bootstrap(ahead)
            self._steps[-1] = (*self._steps[-1][:-1], True)
        self.cuts.append(self.length)

    def end_game(self, score: float, steps: int) -> None:
        """Record that a game ended with the last step."""
        self.games.append((score, steps))
        self.cuts.append(self.length)

    @property
    def length(self) -> int:
        return len(self._steps)

    @property
    def ended(self) -> bool:
        """True when the last step was an end."""
        return self._steps[-1][-1]

    @property
    def observed(self) -> NDArray[np.int32]:
        return np.concatenate(self.seen or [()]).astype(np.int32)

    @property
    def counts(self) -> NDArray[np.int64]:
        return np.fromiter(map(len, self.seen), dtype=np.int64, count=self.length)

    @cached_property
    def _table(self) -> Doubles:
        return np.array(self._steps, dtype=np.float64).reshape(self.length, 4).T.copy()

    @property
    def actions(self) -> NDArray[Any]:
        return np.array(self._done, dtype=None if self._done else np.int64)

    @property
    def log_probs(self) -> Doubles:
        return cast(Doubles, self._table[0])

    @property
    def values(self) -> Doubles:
        return cast(Doubles, self._table[1])

    @property
    def rewards(self) -> Doubles:
        return cast(Doubles, self._table[2])

    @cached_property
    def ends(self) -> Flags:
        return cast(Flags, self._table[3] != 0)
