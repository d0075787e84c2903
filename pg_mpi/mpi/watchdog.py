"""Watchdog that ends a rank without progress, as after an endless loop, a stopped rank or a cut link.

Every rank has a watchdog and feeds it once per update. Without a feed for ``limit`` seconds the watchdog prints a
message and the stack of every thread, and ends the process; the launcher then ends the other ranks. A stopped rank
cannot end itself, but the ranks that wait for it end by their own watchdogs.
"""

import contextlib
import faulthandler
import os
import platform
import threading
import time

from pg_mpi.mpi.launch import launch_variables

CHECK_EVERY = 1.0  # seconds: maximum interval between two checks
LAST_WORDS = 1.25  # seconds for the other ranks to print their stacks: the first exit ends the job
OVERDUE = 0.25  # seconds after the limit until faulthandler's C thread acts; less than LAST_WORDS
START = 60.0  # seconds: minimum limit until the first feed


class Watchdog:
    """Daemon thread that ends the process after ``limit`` seconds without ``feed``.

    Args:
        limit: seconds without ``feed``; 0 disables the watchdog.
        rank, size: of this process, for the message.
        spared: whether the launcher keeps the other ranks when one ends, so that the watchdog must end the job.
    """

    def __init__(self, limit: float, rank: int, size: int, spared: bool = False) -> None:
        self._limit, self._whose = limit, f"rank {rank} of {size} ({platform.node()}, process {os.getpid()})"
        self._feeds, self._spared = 0, spared
        if limit:
            threading.Thread(target=self._watch, name="watchdog", daemon=True).start()

    def feed(self) -> None:
        """Record progress."""
        self._feeds += 1
        if self._limit:  # a call into C may begin before the watchdog thread runs
            _arm(self._limit + OVERDUE)

    def _watch(self) -> None:
        pause, idle, feeds = min(CHECK_EVERY, self._limit / 10), 0.0, 0
        while idle < (limit := self._limit if feeds else max(self._limit, START)):
            # a call into C that holds the interpreter lock blocks this thread, but not faulthandler's C thread
            _arm(limit - idle + OVERDUE)
            before = time.monotonic()
            time.sleep(min(pause, limit - idle))
            # time during which the whole process was stopped does not count here; faulthandler counts it
            idle += min(time.monotonic() - before, 2 * pause)
            if self._feeds != feeds:
                idle, feeds = 0.0, self._feeds
        _arm(2 * LAST_WORDS)  # in case the next lines block, for example on a full pipe
        try:
            line = f"pg_mpi: {self._whose} saw no update end for {limit:g} s: the job ends (--watchdog). Its stack:\n"
            os.write(2, line.encode())
            faulthandler.dump_traceback(all_threads=True)
            time.sleep(LAST_WORDS)
        finally:
            if self._spared:
                launch_variables.end_job()
            os._exit(1)


def _arm(seconds: float) -> None:
    """Have faulthandler print every stack and end the process after ``seconds``; replaces the timer set before."""
    with contextlib.suppress(Exception):  # raises without a standard error
        faulthandler.dump_traceback_later(seconds, exit=True)
