"""The timer of an update's phases."""

import contextlib
import time
from collections.abc import Callable, Iterator

PHASES = ("emulator", "reset", "features", "inference", "gradient", "allreduce", "wait", "optimizer", "record")


class PhaseTimer:
    """Seconds per phase since the last ``clear``; ``with phases("gradient"): ...`` adds to one.

    ``wait`` is time spent waiting for other ranks, ``allreduce`` the exchange itself.

    Attributes:
        seconds: of each phase.
        clock: the clock that measures them.
        spans: list of (name, begin, end) by ``clock``, one per phase entered.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self.clear()

    def clear(self) -> None:
        """Reset to zero."""
        self.seconds = dict.fromkeys(PHASES, 0.0)
        self.spans: list[tuple[str, float, float]] = []

    @contextlib.contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        begun = self.clock()
        try:
            yield
        finally:
            ended = self.clock()
            self.seconds[name] += ended - begun
            self.spans.append((name, begun, ended))

    @contextlib.contextmanager
    def around(self, name: str) -> Iterator[None]:
        """Record a span around other phases, without adding to any."""
        begun = self.clock()
        yield
        self.spans.append((name, begun, self.clock()))
