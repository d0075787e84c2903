"""Ends a rank that makes no progress, so that nothing hangs: not on a stopped rank, an endless loop or a cut link.

Every rank has its own and feeds it once an update. One that has not been fed for so long says so, prints the stack of
every thread, and ends the process; its launcher then ends the others. A rank that was stopped cannot do that, but the
others wait for it in vain, and theirs can.
"""

import faulthandler
import os
import platform
import sys
import threading
import time

LOOKS = 1.0  # seconds between two looks, at most
LAST_WORDS = 1.0  # seconds for the other ranks to print theirs: the first to end ends all
START = 60.0  # seconds that the start may take, where updates have less


class Watchdog:
    """Watches from now on.

    Args:
        limit: seconds without ``feed`` that are too many; 0: it never ends anything.
        rank, size: of this process, to say whose stack it is.
    """

    def __init__(self, limit, rank, size):
        self._limit, self._whose = limit, f"rank {rank} of {size} ({platform.node()}, process {os.getpid()})"
        self._meals = 0
        if limit:
            threading.Thread(target=self._watch, name="watchdog", daemon=True).start()

    def feed(self):
        """There is progress."""
        self._meals += 1

    def _watch(self):
        pause, hungry, meals = min(LOOKS, self._limit / 10), 0.0, 0
        while hungry < (limit := self._limit if meals else max(self._limit, START)):
            # where a call into C never lets go of the interpreter, this thread cannot run, but the one of C's can
            faulthandler.dump_traceback_later(limit + LAST_WORDS / 2, exit=True)
            before = time.monotonic()
            time.sleep(pause)
            # while the whole process was stopped, as batch systems do that suspend jobs, nobody starved
            hungry += min(time.monotonic() - before, 2 * pause)
            if self._meals != meals:
                hungry, meals = 0.0, self._meals
        faulthandler.cancel_dump_traceback_later()
        sys.stdout.flush()
        print(
            f"pg_mpi: {self._whose} saw no update end for {limit:g} s: the job ends (--watchdog). It was here:",
            file=sys.stderr,
            flush=True,
        )
        faulthandler.dump_traceback(all_threads=True)
        time.sleep(LAST_WORDS)
        os._exit(1)
