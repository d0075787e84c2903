"""Replay buffer: the newest transitions, drawn in proportion to their return.

A transition holds the active inputs (in the smallest integer type that fits), the action and the return. The buffer
holds ``capacity`` transitions, with ``ROOM`` inputs each on average. If observations are larger, fewer transitions fit.

A transition of return R is drawn in proportion to R + |min(m, 0)|, m the smallest return, so the worst return below 0
has weight 0.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pg_mpi.config.array_types import Floats, Integers

SIZE = 100_000  # transitions per rank
ROOM = 48  # inputs per transition; Pong has 30 to 45
STATE = ("observed", "counts", "actions", "returns")  # the arrays of a buffer's state
TRANSITION = 4 * ROOM + 10  # largest size of a transition in a checkpoint, in bytes


class ReplayBuffer:
    """The newest transitions, oldest first.

    Args:
        capacity: largest number of transitions.
        inputs: number of inputs; active inputs are below it.
    """

    def __init__(self, capacity: int, inputs: int) -> None:
        self.capacity, self._bound = capacity, inputs
        self._observed: Integers = np.empty(0, dtype=np.min_scalar_type(inputs - 1))  # the active inputs of all
        self._counts: Integers = np.empty(0, dtype=np.int32)
        self._actions: Integers = np.empty(0, dtype=np.uint16)
        self._returns: Floats = np.empty(0, dtype=np.float32)

    def __len__(self) -> int:
        return len(self._returns)

    def add(self, observed: Integers, counts: Integers, actions: Integers, returns: Floats) -> None:
        """Append transitions, oldest first, and drop the oldest stored ones to make room.

        Args:
            observed: int (sum of counts,), the active inputs of all; counts: int (n,), their number per transition.
            actions: int (n,).
            returns: float (n,), stored as float32.
        """
        counts = _joined(self._counts, counts)
        begins = _begins(counts)
        total = len(self._observed) + len(observed)
        first = max(len(counts) - self.capacity, int(np.searchsorted(begins, total - self.capacity * ROOM)))
        cut = begins[first] if first < len(counts) else total
        self._observed = _joined(self._observed, observed)[cut:]
        self._counts = counts[first:]
        self._actions = _joined(self._actions, actions)[first:]
        self._returns = _joined(self._returns, returns)[first:]

    def draw(self, count: int, rng: np.random.Generator) -> Integers:
        """Draw ``count`` different transitions: their places, 0 the oldest, int64 (count,), in the order of drawing.

        If fewer have a positive weight, the rest is drawn uniformly among those of weight 0.
        """
        places = np.arange(len(self))
        weights = self._returns.astype(np.float64)
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
        inside = np.arange(counts.sum()) - np.repeat(_begins(counts), counts)
        observed = self._observed[np.repeat(_begins(self._counts)[places], counts) + inside]
        return observed, counts, self._actions[places].astype(np.int64), self._returns[places]

    def state(self) -> dict[str, NDArray[Any]]:
        """All transitions, as arrays."""
        return dict(zip(STATE, (self._observed, self._counts, self._actions, self._returns)))

    def append(self, state: dict[str, NDArray[Any]]) -> None:
        """Add the transitions of a state. Raises ``ValueError`` or ``KeyError`` for malformed data."""
        observed, counts, actions, returns = (state[name] for name in STATE)
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


def _joined(stored: NDArray[Any], new: NDArray[Any]) -> NDArray[Any]:
    return np.concatenate((stored, new.astype(stored.dtype)))


def _begins(counts: Integers) -> NDArray[np.int64]:
    """Where the inputs of each transition begin: int (n,) → (n,)."""
    ends: NDArray[np.int64] = np.cumsum(counts, dtype=np.int64)
    return ends - counts
