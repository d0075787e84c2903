"""Virtual ranks: each is a thread with a whole trainer, they run one at a time, and a clock says what it would be.

The ranks take turns in the order of their numbers. Each runs, alone, up to its next collective call, and the processor
time it took is added to its own clock: whatever else this machine does meanwhile costs it nothing. Only what rank 0
does for all, as checkpoints, takes as long as it takes, for it waits for disks. When the last one has come to the call,
the call is done for all of them, and every clock is set to the latest of them plus what the network would need. So
waiting, exchange and speed come out as on as many cores, and what is learned is learned for real.
"""

import pickle
import threading
import time
from time import perf_counter, thread_time

import numpy as np

from pg_mpi import STARTED


class Broken(RuntimeError):
    """Another virtual rank failed."""


class Hub:
    """Where virtual ranks meet.

    Args:
        size: how many there are.
        cost: seconds of an exchange of so many bytes among all of them.
        crowd: how many ranks share a core: their own time takes so many times as long.
    """

    def __init__(self, size, cost, crowd=1.0):
        self.size, self._cost, self._crowd = size, cost, max(1.0, crowd)
        self._turns = [threading.Semaphore(0) for _ in range(size)]
        self._clocks = [time.monotonic() - STARTED] * size  # every rank has imported what this process has
        self._items, self._result, self._resumed = [None] * size, None, 0.0
        self._made = {}  # (result, seconds) of the calls that not all ranks have come to
        self.error = None

    def run(self, main):
        """``main(world)`` in a thread for each rank: their results. Raises the first exception of any of them."""
        results = [None] * self.size
        threads = [
            threading.Thread(target=self._live, args=(main, rank, results), daemon=True) for rank in range(self.size)
        ]
        for thread in threads:
            thread.start()
        self._turns[0].release()
        for thread in threads:
            thread.join()
        if self.error:
            raise self.error
        return results

    def _live(self, main, rank, results):
        try:
            self._take(rank)
            results[rank] = main(VirtualWorld(self, rank))
            self.meet(rank, None, lambda items: None, 0)  # all are done
            self._turns[(rank + 1) % self.size].release()
        except BaseException as error:  # whatever ends one rank ends all
            if self.error is None:
                self.error = error
            for turn in self._turns:
                turn.release()

    def _take(self, rank):
        self._turns[rank].acquire()
        if self.error:
            raise Broken("another virtual rank failed")
        self._resumed = thread_time()

    def clock(self, rank):
        """Seconds on a rank's clock; it must be its turn."""
        return self._clocks[rank] + self._crowd * (thread_time() - self._resumed)

    def delay(self, rank, seconds):
        """Let a rank's clock go on by so much more; it must be its turn."""
        self._clocks[rank] += seconds

    def once(self, rank, number, function):
        """The result of the ranks' call of this ``number``, which the first to come makes; it costs all the same."""
        if self.size == 1:
            return function()
        if number not in self._made:
            begun = thread_time()
            self._made[number] = function(), thread_time() - begun
            return self._made[number][0]
        result, seconds = self._made[number] if rank < self.size - 1 else self._made.pop(number)
        self.delay(rank, self._crowd * seconds)
        return result

    def meet(self, rank, item, combine, size):
        """Give ``item``, wait for the others', return ``combine(items)``; costs an exchange of ``size`` bytes."""
        self._clocks[rank] = self.clock(rank)
        self._items[rank] = item
        if rank == self.size - 1:
            self._result = combine(self._items)
            latest = max(self._clocks) + (self._cost(size) if self.size > 1 else 0.0)
            self._clocks = [latest] * self.size
        if self.size > 1:
            self._turns[(rank + 1) % self.size].release()
            self._take(rank)
        else:
            self._resumed = thread_time()
        return self._result


class VirtualWorld:
    """One virtual rank's ``World``: the same verbs, for ``pg_mpi.run.trainer``."""

    cpu_clock = staticmethod(thread_time)

    def __init__(self, hub, rank):
        self._hub, self.rank, self.size = hub, rank, hub.size
        self._calls = 0  # of ``once``

    def clock(self):
        """This rank's time, as ``time.monotonic`` would tell it."""
        return STARTED + self._hub.clock(self.rank)

    def sum_(self, array):
        self._hub.meet(self.rank, array, _sum, array.nbytes)
        return array

    def max_(self, array):
        self._hub.meet(self.rank, array, _max, array.nbytes)
        return array

    def any(self, *flags):
        votes = self._hub.meet(self.rank, [bool(flag) for flag in flags], list, len(flags))
        return [any(flag) for flag in zip(*votes)]

    def broadcast_(self, array):
        self._hub.meet(self.rank, array, _broadcast, array.nbytes)
        return array

    def barrier(self):
        self._hub.meet(self.rank, None, lambda items: None, 0)

    def gather(self, item):
        items = self._hub.meet(self.rank, item, list, self._packed(item))
        return items if self.rank == 0 else None

    def gather_all(self, item):
        return self._hub.meet(self.rank, item, list, self._packed(item))

    def _packed(self, item):
        """Bytes that pass the root's link in a gather; all ranks' items are as large as this one's."""
        return self.size * len(pickle.dumps(item))

    def on_root(self, function, *args, asleep=False):
        result = error = None
        if self.rank == 0:
            begun, worked = perf_counter(), thread_time()
            try:
                result = function(*args)
            except Exception as caught:  # any: every rank raises it
                error = caught
            self._hub.delay(0, max(0.0, perf_counter() - begun - (thread_time() - worked)))
        result, error = self._hub.meet(self.rank, (result, error), lambda items: items[0], 0)
        if error is not None:
            error.agreed = True
            raise error
        return result

    def once(self, function, *args):
        """``function(*args)`` for all ranks: it must do the same on every one, to what they hold in common."""
        self._calls += 1
        return self._hub.once(self.rank, self._calls, lambda: function(*args))

    def mpi_version(self):
        return f"none: {self.size} virtual ranks of scaling.model.virtual"


def _sum(arrays):
    """Replace every array by the sum of all, pair by pair as recursive doubling adds them."""
    _spread(arrays, np.add)


def _max(arrays):
    _spread(arrays, np.maximum)


def _spread(arrays, combine):
    sums = list(arrays)
    while len(sums) > 1:
        pairs = zip(sums[::2], sums[1::2])
        sums = [combine(a, b, out=a) for a, b in pairs] + ([sums[-1]] if len(sums) % 2 else [])
    for array in arrays[1:]:
        array[...] = arrays[0]


def _broadcast(arrays):
    for array in arrays[1:]:
        if array is not arrays[0]:  # ranks may share what all of them hold alike
            array[...] = arrays[0]
