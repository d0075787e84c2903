"""Signals only set a flag; the training loop asks for it at each update, with all ranks."""

import signal

#: USR1 is what launchers forward to ranks; TERM and INT come where the launcher leaves time.
STOP_SIGNALS = (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT)


class StopFlag:
    """Set by the first stop signal; later ones change nothing, so a save is never interrupted.

    Attributes:
        name: the signal's name, or None while none has come.
    """

    def __init__(self):
        self.name = None
        for number in STOP_SIGNALS:
            signal.signal(number, self._set)

    def _set(self, number, frame):
        self.name = self.name or signal.Signals(number).name
