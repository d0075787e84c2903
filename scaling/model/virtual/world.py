"""Virtual ranks: one thread with a trainer per rank, one at a time, on a simulated clock.

The ranks take turns in rank order. Each runs alone, and its processor time is added to its own clock, so other load on
this machine does not count. A turn ends at the next collective call, or after 3 ms: then a machine whose speed changes
is as fast for one rank as for another. Work of rank 0 for all ranks, such as checkpoints, is
charged by wall-clock time, because it waits for disks. When the last rank has reached the call, the call is executed
for all ranks, and every clock is set to the latest one plus the modelled network time. Waiting, exchange and speed are
those of as many cores; the training is real.
"""

import pickle
import threading
import time
from time import perf_counter, thread_time

import numpy as np

from pg_mpi import STARTED
from pg_mpi.config.errors import agreed
from pg_mpi.mpi.world import attempt

TURN = 0.003  # seconds after which a rank that reads its clock lets the next one go on


class Broken(RuntimeError):
    """Another virtual rank failed."""


class Hub:
    """Turns, clocks and collective calls of virtual ranks.

    Args:
        size: number of ranks.
        cost: function of a number of bytes: seconds of their exchange among all ranks.
        crowd: ranks per core, by which the processor time of each rank is multiplied.
    """

    def __init__(self, size, cost, crowd=1.0):
        self.size, self._cost, self._crowd = size, cost, max(1.0, crowd)
        self._turns = [threading.Semaphore(0) for _ in range(size)]
        self._clocks = [time.monotonic() - STARTED] * size  # every rank starts after the imports
        self._items, self._result, self._resumed = [None] * size, None, 0.0
        self._arrived, self._to_come = [False] * size, size  # at the next collective call
        self._made = {}  # [result, seconds, ranks to come] of calls that some ranks have not reached
        self._whole = False  # whether this turn may not end now
        self.error = None

    def run(self, main):
        """Run ``main(world)`` in one thread per rank and return the results. Raises the first exception of any rank."""
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
            self.meet(rank, None, lambda items: None, 0)  # wait for all ranks
            self._pass(rank)
        except BaseException as error:  # an error of one rank ends all
            if self.error is None:
                self.error = error
            for turn in self._turns:
                turn.release()

    def _take(self, rank):
        self._turns[rank].acquire()
        if self.error:
            raise Broken("another virtual rank failed")
        self._resumed = thread_time()

    def _pass(self, rank):
        """Give the turn to the next rank that is on its way to the collective call; perhaps ``rank`` itself."""
        ranks = ((rank + step) % self.size for step in range(1, self.size + 1))
        self._turns[next(each for each in ranks if not self._arrived[each])].release()

    def clock(self, rank):
        """Seconds on a rank's clock. Call only in its turn. After ``TURN`` the other ranks run before this returns."""
        seconds = thread_time() - self._resumed
        if seconds > TURN and not self._whole:
            self._clocks[rank] += self._crowd * seconds
            self._pass(rank)
            self._take(rank)
            seconds = thread_time() - self._resumed
        return self._clocks[rank] + self._crowd * seconds

    def delay(self, rank, seconds):
        """Advance a rank's clock. Call only in its turn."""
        self._clocks[rank] += seconds

    def once(self, rank, number, function, share):
        """Result of call ``number``. The first rank executes it; every rank is charged this share of its time.

        ``function`` must not read the clock.
        """
        if self.size == 1:
            return function()
        if number not in self._made:
            begun = thread_time()
            result = function()
            seconds = thread_time() - begun
            self._made[number] = [result, share * seconds, self.size - 1]
            self.delay(rank, self._crowd * (share - 1) * seconds)
            return result
        made = self._made[number]
        made[2] -= 1
        if not made[2]:
            del self._made[number]
        self.delay(rank, self._crowd * made[1])
        return made[0]

    def attempt(self, rank, function, *args):
        """Call ``function(*args)``, charged by wall-clock time because it may wait for disks: (result, error)."""
        self._whole = True
        begun, worked = perf_counter(), thread_time()
        outcome = attempt(function, *args)
        self.delay(rank, max(0.0, perf_counter() - begun - (thread_time() - worked)))
        self._whole = False
        return outcome

    def meet(self, rank, item, combine, size):
        """Wait for the items of all ranks and return ``combine(items)``. Costs an exchange of ``size`` bytes."""
        self.delay(rank, self._crowd * (thread_time() - self._resumed))
        self._items[rank], self._arrived[rank] = item, True
        self._to_come -= 1
        if not self._to_come:
            self._result = combine(self._items)
            latest = max(self._clocks) + (self._cost(size) if self.size > 1 else 0.0)
            self._clocks = [latest] * self.size
            self._arrived, self._to_come = [False] * self.size, self.size
        self._pass(rank)
        self._take(rank)
        return self._result


class VirtualWorld:
    """The ``World`` of one virtual rank, for ``pg_mpi.run.trainer``."""

    cpu_clock = staticmethod(thread_time)
    divides = True

    def __init__(self, hub, rank):
        self._hub, self.rank, self.size = hub, rank, hub.size
        self._calls = 0  # calls of ``once``

    def clock(self):
        """This rank's time on the scale of ``time.monotonic``."""
        return STARTED + self._hub.clock(self.rank)

    def sum_(self, array):
        return self.merge_(array, np.add)

    def max_(self, array):
        return self.merge_(array, np.maximum)

    def merge_(self, array, function):
        self._hub.meet(self.rank, array, lambda arrays: _merge(arrays, function), array.nbytes)
        return array

    def any(self, *flags):
        votes = self._hub.meet(self.rank, [bool(flag) for flag in flags], list, len(flags))
        return [any(flag) for flag in zip(*votes)]

    def broadcast_(self, array):
        self._hub.meet(self.rank, array, _broadcast, array.nbytes)
        return array

    def barrier(self):
        self._hub.meet(self.rank, None, lambda items: None, 0)

    def gather_all(self, item):
        return self._hub.meet(self.rank, item, list, self.size * len(pickle.dumps(item)))

    def gather_blocks(self, array, each):
        blocks = self._hub.meet(self.rank, array, list, each * len(array))
        return blocks[self.rank : self.rank + each] if self.rank % each == 0 else None

    def scatter_blocks(self, blocks, each):
        dealt = self._hub.meet(self.rank, blocks, list, sum(map(len, blocks)))
        return dealt[self.rank - self.rank % each][self.rank % each]

    def on_root(self, function, *args, asleep=False):
        result, error = self._hub.attempt(self.rank, function, *args) if self.rank == 0 else (None, None)
        result, error = self._hub.meet(self.rank, (result, error), lambda items: items[0], 0)
        if error is not None:
            raise agreed(error)
        return result

    def on_every(self, function, *args):
        result, error = self._hub.attempt(self.rank, function, *args)
        for first in filter(None, self._hub.meet(self.rank, error, list, 8)):
            raise agreed(first)
        return result

    def once(self, function, *args, share=1.0):
        """Run ``function(*args)`` once for all ranks. It must act alike on every rank, and on shared state only.

        ``share``: of its time that each rank is charged.
        """
        self._calls += 1
        return self._hub.once(self.rank, self._calls, lambda: function(*args), share)

    def mpi_version(self):
        return f"none: {self.size} virtual ranks of scaling.model.virtual"


def _merge(arrays, function):
    """Replace every array by ``function`` of all, merged in pairs as in recursive doubling."""
    left = list(arrays)
    while len(left) > 1:
        for one, other in zip(left[::2], left[1::2]):
            one[...] = function(one, other)
        left = left[::2]
    _broadcast(arrays)


def _broadcast(arrays):
    for array in arrays[1:]:
        if array is not arrays[0]:  # virtual ranks may share an array
            array[...] = arrays[0]
