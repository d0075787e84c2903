"""Signals only set a flag; the training loop asks for it at each update, with all ranks."""

import os
import signal
import time

#: USR1 is what launchers forward to ranks; TERM and INT come where the launcher leaves time.
STOP_SIGNALS = (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT)


class StopFlag:
    """Set by the first stop signal; later ones change nothing, so a save is never interrupted.

    Args:
        launched: whether a launcher started this process. Its death is a reason to stop too: a single rank,
            which never calls MPI, would not notice and train on for ever.
    """

    def __init__(self, launched=False):
        self._signal, self._at, self._parent = None, None, os.getppid() if launched else None
        for number in STOP_SIGNALS:
            signal.signal(number, self._set)

    def _set(self, number, frame):
        if not self._signal:
            self._signal, self._at = signal.Signals(number).name, time.monotonic()

    def __bool__(self):
        """True once a signal has come."""
        return self._signal is not None

    def age(self):
        """Seconds since the signal came, 0 without one."""
        return time.monotonic() - self._at if self._at else 0.0

    def reason(self):
        """Why to stop, or None."""
        if self._parent and os.getppid() != self._parent:
            return "the launcher died"
        return self._signal
