"""Ends a rank that makes no progress, so that nothing hangs: not on a stopped rank, an endless loop or a cut link.

Every rank has its own and feeds it once an update. One that has not been fed for so long says so, prints the stack of
every thread, and ends the process; its launcher then ends the others. A rank that was stopped cannot do that, but the
others wait for it in vain, and theirs can.
"""

import contextlib
import faulthandler
import os
import platform
import threading
import time

from pg_mpi.mpi.launch import launch_env

LOOKS = 1.0  # seconds between two looks, at most
LAST_WORDS = 1.25  # seconds for the other ranks to print theirs: the first to end ends all
OVERDUE = 0.25  # seconds after which C speaks for a Python that is not given its turn: well before the others end it
START = 60.0  # seconds that the start may take, where updates have less


class Watchdog:
    """Watches from now on.

    Args:
        limit: seconds without ``feed`` that are too many; 0: it never ends anything.
        rank, size: of this process, to say whose stack it is.
        spared: whether the launcher spares the other ranks when one ends, and so has to be told.
    """

    def __init__(self, limit, rank, size, spared=False):
        self._limit, self._whose = limit, f"rank {rank} of {size} ({platform.node()}, process {os.getpid()})"
        self._meals, self._spared = 0, spared
        if limit:
            threading.Thread(target=self._watch, name="watchdog", daemon=True).start()

    def feed(self):
        """There is progress."""
        self._meals += 1
        if self._limit:  # the thread that watches may not have its turn before a call into C begins
            _arm(self._limit + OVERDUE)

    def _watch(self):
        pause, hungry, meals = min(LOOKS, self._limit / 10), 0.0, 0
        while hungry < (limit := self._limit if meals else max(self._limit, START)):
            # where a call into C never lets go of the interpreter, this thread cannot run, but the one of C's can
            _arm(limit - hungry + OVERDUE)
            before = time.monotonic()
            time.sleep(min(pause, limit - hungry))
            # while the whole process was stopped for a while, nobody starved; C's clock goes on, though
            hungry += min(time.monotonic() - before, 2 * pause)
            if self._meals != meals:
                hungry, meals = 0.0, self._meals
        _arm(2 * LAST_WORDS)  # for what the next lines cannot do, as write to a pipe that nobody reads
        try:
            line = f"pg_mpi: {self._whose} saw no update end for {limit:g} s: the job ends (--watchdog). It was here:\n"
            os.write(2, line.encode())
            faulthandler.dump_traceback(all_threads=True)
            time.sleep(LAST_WORDS)
        finally:
            if self._spared:
                launch_env.end_job()
            os._exit(1)


def _arm(seconds):
    """Let C print every stack and end the process after so many seconds, unless it is armed again before."""
    with contextlib.suppress(Exception):  # without a standard error it refuses
        faulthandler.dump_traceback_later(seconds, exit=True)
