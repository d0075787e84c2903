"""Where the time of an update goes."""

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


class Phases:
    """Seconds per phase since the last ``clear``; ``with phases("gradient"): ...`` adds to one.

    ``wait`` is time spent waiting for other ranks, ``allreduce`` the exchange itself.
    """

    def __init__(self):
        self.seconds = dict.fromkeys(PHASES, 0.0)

    def clear(self):
        """Start again at zero."""
        self.seconds = dict.fromkeys(PHASES, 0.0)

    @contextlib.contextmanager
    def __call__(self, name):
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] += time.perf_counter() - start
