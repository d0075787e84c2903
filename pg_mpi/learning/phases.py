"""Protocol of the timer of an update's phases."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol


class Phases(Protocol):
    """Seconds per phase; ``with phases("gradient"): ...`` adds to one. ``run.phase_timer.PhaseTimer`` follows it.

    Attributes:
        seconds: of each phase.
        clock: the clock that measures them.
    """

    seconds: dict[str, float]
    clock: Callable[[], float]

    def __call__(self, name: str) -> AbstractContextManager[None]:
        """Context that adds its time to the phase ``name``."""
