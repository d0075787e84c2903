"""A stub that replaces the exchange and leaves the rest of training unchanged. Its training is meaningless."""

import contextlib

from scaling.measure.alone import Alone


class StubWorld:
    """Wraps a ``World``: with ``local`` set there is no exchange, and each rank stands for all of them, as ``Alone``.

    The worlds of ``split`` follow it.
    """

    def __init__(self, world):
        self._world, self._alone = world, Alone(world.rank, world.size)
        self._parts, self.local = (), False

    def split(self, each):
        self._parts = tuple(map(StubWorld, self._world.split(each)))
        return self._parts

    def __getattr__(self, name):
        return getattr(self._alone if self.local else self._world, name)


@contextlib.contextmanager
def without_exchange(world):
    """Context in which the ranks of a ``StubWorld`` learn independently. Call ``bench.put_back`` afterwards."""
    for each in (world, *world._parts):
        each.local = True
    try:
        yield
    finally:
        for each in (world, *world._parts):
            each.local = False
