"""Stop signals set a flag. A rank checks it before each step, and all ranks agree on it at the end of a round.

``play`` in ``run/trainer.py`` discards the round that a signal or the walltime interrupts and restores every env to its
start.
"""

import os
import signal
import time
from collections.abc import Callable
from types import FrameType
from typing import Protocol

#: Launchers forward USR1 to ranks; TERM and INT arrive from launchers that leave time for a checkpoint.
STOP_SIGNALS = (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT)


class Stop(Protocol):
    """Whether a run must stop. ``StopFlag`` follows it."""

    def __bool__(self) -> bool:
        """Whether a stop was requested."""

    def age(self) -> float:
        """Seconds since a signal; 0 without one."""


class StopFlag:
    """Flag set by the first stop signal. Later signals change nothing, so no signal interrupts a save.

    Args:
        launched: whether a launcher started this process. The end of the launcher is then a reason to stop too,
            because a single rank never calls MPI and would not notice it.
    """

    def __init__(self, launched: bool = False) -> None:
        self._at, self._parent = 0.0, os.getppid() if launched else None
        for number in STOP_SIGNALS:
            signal.signal(number, self._set)

    def _set(self, number: int, frame: FrameType | None) -> None:
        self._at = self._at or time.monotonic()

    def __bool__(self) -> bool:
        """Whether a signal has arrived or the launcher has ended."""
        return self._at > 0 or (self._parent is not None and os.getppid() != self._parent)

    def age(self) -> float:
        """Seconds since the first signal; 0 without one."""
        return time.monotonic() - self._at if self._at else 0.0


def _before_fork() -> None:
    global _mask
    _mask = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)


def _in_parent() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _mask)


def _in_child() -> None:
    """Give a forked child, such as a simulator of an environment, the usual handlers: a signal ends it."""
    for number in STOP_SIGNALS:
        if isinstance(getattr(signal.getsignal(number), "__self__", None), StopFlag):
            signal.signal(number, signal.SIG_DFL)
    _in_parent()


_mask: set[signal.Signals | int] = set()
os.register_at_fork(before=_before_fork, after_in_parent=_in_parent, after_in_child=_in_child)


class Until:
    """True if ``stop`` is, or once ``clock()`` has reached ``end``, in seconds."""

    def __init__(self, stop: Stop, end: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._stop, self._end, self._clock = stop, end, clock

    def __bool__(self) -> bool:
        return bool(self._stop) or self._clock() >= self._end

    def age(self) -> float:
        """As of ``stop``."""
        return self._stop.age()
