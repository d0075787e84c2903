"""What an environment shows and takes: Gymnasium's spaces, or anything with the same attributes, as plain numbers."""

import dataclasses

import numpy as np

from pg_mpi.config.errors import UsageError

SUPPORTED = "supported are Box and Discrete observations, and as actions Discrete and a Box of floats with one axis"


@dataclasses.dataclass(frozen=True)
class Spaces:
    """What an environment shows and takes.

    Attributes:
        shape: of an observation; ``states``: how many there are of a Discrete one, the first being ``first``, or None.
        low, high: bounds of an action's numbers, tuples, and their ``dtype``; None for a Discrete one.
        codes: the environment's name of each action of a Discrete one; None for a Box.
    """

    shape: tuple
    states: int | None
    first: int
    low: tuple | None
    high: tuple | None
    dtype: str | None
    codes: list | None

    @property
    def numbers(self):
        """How many numbers an observation is."""
        return self.states or int(np.prod(self.shape, dtype=np.int64))

    def saved(self):
        """As JSON can hold it."""
        return dataclasses.asdict(self)


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
    low = high = dtype = codes = None
    if _is_discrete(taken):
        first_action = int(getattr(taken, "start", 0))
        codes = list(range(first_action, first_action + int(taken.n)))
    elif _is_box(taken, kinds="f") and len(taken.shape) == 1:
        dtype = np.dtype(getattr(taken, "dtype", None) or np.float32).str
        bounds = (np.broadcast_to(bound, taken.shape).astype(np.float64) for bound in (taken.low, taken.high))
        low, high = (tuple(bound.tolist()) for bound in bounds)
    else:
        raise UsageError(f"{env_id} takes actions of {taken}: {SUPPORTED}")
    spaces = Spaces(shape, states, first, low, high, dtype, codes)
    if spaces.numbers < 1 or (codes is not None and len(codes) < 2) or low == ():
        raise UsageError(f"{env_id} leaves a policy nothing to see, or no choice: {seen}, {taken}")
    return spaces


def restored(saved):
    """The ``Spaces`` that ``saved`` gave. Raises nearly anything for what is none."""
    low, high = (None if saved[name] is None else tuple(map(float, saved[name])) for name in ("low", "high"))
    codes = None if saved["codes"] is None else [int(code) for code in saved["codes"]]
    states = None if saved["states"] is None else int(saved["states"])
    dtype = None if saved["dtype"] is None else np.dtype(str(saved["dtype"])).str
    shape = tuple(int(size) for size in saved["shape"])
    spaces = Spaces(shape, states, int(saved["first"]), low, high, dtype, codes)
    if (codes is None) == (low is None) or (codes is None and len(low) != len(high)) or spaces.numbers < 1:
        raise ValueError(f"spaces {saved}")
    return spaces


def _is_discrete(space):
    return hasattr(space, "n") and np.ndim(space.n) == 0 and tuple(getattr(space, "shape", None) or ()) == ()


def _is_box(space, kinds="fiub"):
    numbers = getattr(space, "dtype", None)
    return hasattr(space, "low") and hasattr(space, "shape") and np.dtype(numbers or np.float32).kind in kinds
