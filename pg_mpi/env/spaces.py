"""Observation and action spaces as plain numbers, from Gymnasium's spaces or objects with the same attributes."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from pg_mpi.config.errors import UsageError

SUPPORTED = "supported observations are Box and Discrete; supported actions are Discrete and a 1-D Box of floats"


@dataclasses.dataclass(frozen=True)
class Spaces:
    """Observation and action spaces of an environment.

    Attributes:
        shape: of an observation, () if Discrete. states, first: number of states and first state if Discrete.
        low, high, dtype: bounds (tuples) and dtype of a Box action; None for a Discrete one.
        codes: the environment's code of each Discrete action; None for a Box.
    """

    shape: tuple[int, ...] = ()
    states: int | None = None
    first: int = 0
    low: tuple[float, ...] | None = None
    high: tuple[float, ...] | None = None
    dtype: str | None = None
    codes: list[int] | None = None

    @property
    def numbers(self) -> int:
        """Size of an observation."""
        return self.states or int(np.prod(self.shape, dtype=np.int64))


def spaces_of(env: Any, env_id: str) -> Spaces:
    """Return the ``Spaces`` of an environment. Raises ``UsageError`` if they are not supported."""
    seen: Any = getattr(env, "observation_space", None)
    taken: Any = getattr(env, "action_space", None)
    if _is_discrete(seen):
        spaces = Spaces(states=int(seen.n), first=int(getattr(seen, "start", 0)))
    elif _is_box(seen):
        spaces = Spaces(shape=tuple(int(size) for size in seen.shape))
    else:
        raise UsageError(f"{env_id} has the observation space {seen}: {SUPPORTED}")
    if _is_discrete(taken):
        first = int(getattr(taken, "start", 0))
        spaces = dataclasses.replace(spaces, codes=list(range(first, first + int(taken.n))))
    elif _is_box(taken, kinds="f") and len(taken.shape) == 1:
        dtype = np.dtype(getattr(taken, "dtype", None) or np.float32).str
        bounds = (np.broadcast_to(bound, taken.shape).astype(np.float64) for bound in (taken.low, taken.high))
        low, high = (tuple(bound.tolist()) for bound in bounds)
        spaces = dataclasses.replace(spaces, low=low, high=high, dtype=dtype)
    else:
        raise UsageError(f"{env_id} has the action space {taken}: {SUPPORTED}")
    if spaces.numbers < 1 or (spaces.codes is not None and len(spaces.codes) < 2) or spaces.low == ():
        raise UsageError(f"{env_id} has an empty space or fewer than two actions: {seen}, {taken}")
    return spaces


def restored(saved: Mapping[str, Any]) -> Spaces:
    """Restore ``Spaces`` from a dict of their fields. Raises ValueError, KeyError or TypeError for malformed data."""
    low, high = (None if saved[name] is None else tuple(map(float, saved[name])) for name in ("low", "high"))
    codes = None if saved["codes"] is None else [int(code) for code in saved["codes"]]
    states = None if saved["states"] is None else int(saved["states"])
    dtype = None if saved["dtype"] is None else np.dtype(str(saved["dtype"])).str
    shape = tuple(int(size) for size in saved["shape"])
    spaces = Spaces(shape, states, int(saved["first"]), low, high, dtype, codes)
    if (codes is None) == (low is None) or len(low or ()) != len(high or ()) or spaces.numbers < 1:
        raise ValueError(f"invalid spaces {saved}")
    return spaces


def _is_discrete(space: Any) -> bool:
    return hasattr(space, "n") and np.ndim(space.n) == 0 and tuple(getattr(space, "shape", None) or ()) == ()


def _is_box(space: Any, kinds: str = "fiub") -> bool:
    numbers = getattr(space, "dtype", None)
    return hasattr(space, "low") and hasattr(space, "shape") and np.dtype(numbers or np.float32).kind in kinds
