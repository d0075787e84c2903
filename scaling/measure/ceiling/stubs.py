"""A stub that replaces the exchange and leaves the rest of training unchanged. Its training is meaningless."""

from scaling.measure.one_rank_of_many import Alone


class StubWorld:
    """Wraps a ``World``: with ``local`` set there is no exchange, and each rank stands for all of them, as ``Alone``.

    The worlds of ``split`` follow it.
    """

    def __init__(self, world, whole=None):
        self._world, self._alone = world, Alone(world.rank, world.size)
        self._whole, self.local = whole or self, False

    def split(self, each):
        return tuple(StubWorld(part, self._whole) for part in self._world.split(each))

    def __getattr__(self, name):
        return getattr(self._alone if self._whole.local else self._world, name)
