"""Replay buffer: a ring of the newest transitions, drawn in proportion to their return.

A transition holds the active inputs (in the smallest integer type that fits), the action and the return. All memory is
allocated at once: ``capacity`` transitions, and ``ROOM`` inputs for each. If observations are larger on average, fewer
transitions fit, and the oldest are dropped earlier.

A transition of return R is drawn in proportion to R + |min(m, 0)|, m the smallest return, so the worst return below 0
has weight 0.
"""

from bisect import bisect_left
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pg_mpi.learning.advantages import Floats

Integers = NDArray[np.integer[Any]]

SIZE = 100_000  # transitions per rank
ROOM = 48  # inputs per transition; Pong has 30 to 45
STATE = ("place", "observed", "counts", "actions", "returns")  # the arrays of a ring's state
TRANSITION = 4 * ROOM + 10  # largest size of a transition in a checkpoint, in bytes


class ReplayBuffer:
    """A ring of transitions.

    Args:
        capacity: largest number of transitions.
        inputs: number of inputs; active inputs are below it.
    """

    def __init__(self, capacity: int, inputs: int) -> None:
        self.capacity, self._bound = capacity, inputs
        self._inputs = np.zeros(capacity * ROOM, dtype=np.min_scalar_type(inputs - 1))
        self._ends = np.zeros(capacity, dtype=np.int64)  # of its inputs, among all inputs ever written
        self._counts = np.zeros(capacity, dtype=np.int32)
        self._actions = np.zeros(capacity, dtype=np.uint16)
        self._returns = np.zeros(capacity, dtype=np.float32)
        self._oldest = self._length = self._written = 0

    def __len__(self) -> int:
        return self._length

    def add(self, observed: Integers, counts: Integers, actions: Integers, returns: Floats) -> None:
        """Append transitions, oldest first, and drop the oldest stored ones to make room.

        Args:
            observed: int (sum of counts,), the active inputs of all; counts: int (n,), their number per transition.
            actions: int (n,).
            returns: float (n,), stored as float32.
        """
        begins = np.cumsum(counts) - counts
        first = max(len(counts) - self.capacity, int(np.searchsorted(begins, len(observed) - len(self._inputs))))
        if first > 0:  # more than the ring holds: keep the newest
            self._forget(self._length)
            observed = observed[begins[first] :] if first < len(counts) else observed[:0]
            counts, actions, returns = counts[first:], actions[first:], returns[first:]
        self._make_room(len(counts), len(observed))
        places = self._places(self._length, len(counts))
        self._ends[places] = self._written + np.cumsum(counts)
        self._counts[places], self._actions[places], self._returns[places] = counts, actions, returns
        self._inputs[(self._written + np.arange(len(observed))) % len(self._inputs)] = observed
        self._written += len(observed)
        self._length += len(counts)

    def draw(self, count: int, rng: np.random.Generator) -> Integers:
        """Draw the places of ``count`` different transitions, int64 (count,), in the order of drawing.

        If fewer have a positive weight, the rest is drawn uniformly among those of weight 0.
        """
        places = self._places(0, self._length)
        weights = self._returns[places].astype(np.float64)
        weights -= min(weights.min(), 0.0)
        positive = min(count, int(np.count_nonzero(weights)))
        drawn = places[:0]
        if positive:
            drawn = rng.choice(places, positive, replace=False, p=weights / weights.sum())
        rest = rng.choice(places[weights == 0], count - positive, replace=False)
        return np.concatenate((drawn, rest))

    def read(self, places: Integers) -> tuple[Integers, Integers, Integers, Floats]:
        """Read (observed, counts, actions, returns) at ``places``, as ``add`` takes them."""
        counts = self._counts[places].astype(np.int64)
        begins = self._ends[places] - counts
        inside = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        observed = self._inputs[(np.repeat(begins, counts) + inside) % len(self._inputs)]
        return observed, counts, self._actions[places].astype(np.int64), self._returns[places]

    def state(self) -> dict[str, NDArray[Any]]:
        """All transitions, as arrays; ``place`` is the place of the oldest."""
        observed, counts, actions, returns = self.read(self._places(0, self._length))
        return {
            "place": np.array([self._oldest]),
            "observed": observed.astype(self._inputs.dtype),
            "counts": counts.astype(np.int32),
            "actions": actions.astype(np.uint16),
            "returns": returns,
        }

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Restore ``state`` into an empty buffer, each transition at its own place.

        Raises ``ValueError`` or ``KeyError`` for malformed data.
        """
        self._oldest = int(state["place"][0]) % self.capacity
        self.append(state)

    def append(self, state: dict[str, NDArray[Any]]) -> None:
        """Add the transitions of a state. Raises as ``restore``."""
        observed, counts, actions, returns = (state[name] for name in ("observed", "counts", "actions", "returns"))
        alike = counts.ndim == observed.ndim == 1 and counts.shape == actions.shape == returns.shape
        whole = all(array.dtype.kind in "iu" for array in (observed, counts, actions))
        if not (alike and whole) or min(counts.min(initial=0), observed.min(initial=0), actions.min(initial=0)) < 0:
            raise ValueError("transition arrays of unequal length, wrong type or negative values")
        if counts.max(initial=0) > len(observed):  # else their sum may wrap around
            raise ValueError("a transition with more inputs than are stored")
        if counts.sum() != len(observed) or observed.max(initial=0) >= self._bound:
            raise ValueError("inputs that do not match the counts or are out of range")
        with np.errstate(over="ignore"):
            returns = returns.astype(np.float32)
        if not np.isfinite(returns).all():
            raise ValueError("returns that are not finite")
        self.add(observed, counts, actions, returns)

    def _places(self, first: int, count: int) -> Integers:
        """Places of ``count`` transitions, starting after the ``first`` oldest ones."""
        places: Integers = (self._oldest + first + np.arange(count)) % self.capacity
        return places

    def _make_room(self, count: int, inputs: int) -> None:
        """Drop the oldest transitions to fit ``count`` more, with ``inputs`` inputs in all."""
        kept_from = self._written + inputs - len(self._inputs)
        too_long = bisect_left(range(self._length), kept_from, key=self._begin)
        self._forget(max(0, self._length + count - self.capacity, too_long))

    def _forget(self, gone: int) -> None:
        """Drop the ``gone`` oldest."""
        self._oldest = (self._oldest + gone) % self.capacity
        self._length -= gone

    def _begin(self, number: int) -> int:
        """Where the inputs of a transition begin; ``number`` counts from the oldest."""
        place = (self._oldest + number) % self.capacity
        return int(self._ends[place] - self._counts[place])
