"""Stop signals set a flag, which the training loop checks on all ranks at each update."""

import os
import signal
import time
from types import FrameType
from typing import Protocol

#: Launchers forward USR1 to ranks; TERM and INT arrive from launchers that leave time for a checkpoint.
STOP_SIGNALS = (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT)


class Stop(Protocol):
    """What asks a run to stop, true once it does. ``StopFlag`` follows it."""

    def age(self) -> float:
        """Seconds since it asked; 0 before."""

    def reason(self) -> str | None:
        """Reason to stop, or None."""


class StopFlag:
    """Flag set by the first stop signal. Later signals change nothing, so no signal interrupts a save.

    Args:
        launched: whether a launcher started this process. The end of the launcher is then a reason to stop too,
            because a single rank never calls MPI and would not notice it.
    """

    def __init__(self, launched: bool = False) -> None:
        self._signal: str | None = None
        self._at, self._parent = 0.0, os.getppid() if launched else None
        for number in STOP_SIGNALS:
            signal.signal(number, self._set)

    def _set(self, number: int, frame: FrameType | None) -> None:
        if not self._signal:
            self._signal, self._at = signal.Signals(number).name, time.monotonic()

    def __bool__(self) -> bool:
        """True once a signal has arrived."""
        return self._signal is not None

    def age(self) -> float:
        """Seconds since the first signal; 0 without one."""
        return time.monotonic() - self._at if self._at else 0.0

    def reason(self) -> str | None:
        """Reason to stop, or None."""
        if self._parent and os.getppid() != self._parent:
            return "the launcher died"
        return self._signal
