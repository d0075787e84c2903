"""Where the time of an update goes: the project's one stopwatch."""

import contextlib
import time

PHASES = (
    "emulator",
    "reset",
    "features",
    "inference",
    "gradient",
    "allreduce",
    "wait",
    "optimizer",
    "record",
)


class PhaseTimer:
    """Seconds per phase since the last ``clear``; ``with phases("gradient"): ...`` adds to one.

    ``wait`` is time spent waiting for other ranks, ``allreduce`` the exchange itself.

    Attributes:
        seconds: of each phase.
        spans: (name, begin, end) by ``clock`` of each time that a phase was entered, where they are wanted, else None.
    """

    def __init__(self, clock=time.perf_counter, spans=False):
        self.clock = clock
        self.spans = [] if spans else None
        self.seconds = dict.fromkeys(PHASES, 0.0)

    def clear(self):
        """Start again at zero."""
        self.seconds = dict.fromkeys(PHASES, 0.0)
        if self.spans is not None:
            self.spans = []

    @contextlib.contextmanager
    def __call__(self, name):
        begun = self.clock()
        try:
            yield
        finally:
            ended = self.clock()
            self.seconds[name] += ended - begun
            if self.spans is not None:
                self.spans.append((name, begun, ended))

    @contextlib.contextmanager
    def around(self, name):
        """A span around other phases, itself none."""
        begun = self.clock()
        yield
        if self.spans is not None:
            self.spans.append((name, begun, self.clock()))
