"""Features that go right and wrong, for ``--features own_features:NAME``."""

import numpy as np


class Rows:
    """The rows of the screen that differ from the usual background, and the last screen's count of them."""

    def __init__(self, scene):
        self._usual = scene.backgrounds[0]
        self.size = 2 * len(self._usual)
        self._before = 0

    def start(self, screen):
        self._before = 0
        return self.step(screen)

    def step(self, screen):
        rows = np.flatnonzero((screen != self._usual).any(axis=1))
        self._seen = np.append(rows, len(self._usual) + self._before)
        self._before = len(rows) // 2
        return self._seen

    def state(self):
        return np.append(self._before, self._seen).astype("<i4").tobytes()

    def restore(self, state):
        numbers = np.frombuffer(state, dtype="<i4").astype(np.int64)
        self._before, self._seen = int(numbers[0]), numbers[1:]
        return self._seen


class Late(Rows):
    """Goes wrong after a while, when a run has begun."""

    calls = 0

    def step(self, screen):
        self.calls += 1
        seen = super().step(screen)
        return seen if self.calls < 70 else self.wrong(seen)

    def wrong(self, seen):
        raise LookupError("no such row")


class LateRange(Late):
    def wrong(self, seen):
        return np.append(seen, self.size)


class Unsorted(Rows):
    def step(self, screen):
        return super().step(screen)[::-1]


class Floats(Rows):
    def step(self, screen):
        return super().step(screen) / 2


class Growing(Rows):
    def step(self, screen):
        self.size += 1
        return super().step(screen)


class Raising(Rows):
    def start(self, screen):
        raise LookupError("no such row")


class Forgetful(Rows):
    """Does not restore what the next observation depends on."""

    def restore(self, state):
        seen = super().restore(state)
        self._before = 3
        return seen


class Sizeless(Rows):
    def __init__(self, scene):
        super().__init__(scene)
        self.size = None
