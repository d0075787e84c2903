"""Correct and faulty features for ``--features own_features:NAME``."""

import numpy as np


class Rows:
    """The rows of the screen that differ from the background, and their number on the previous screen."""

    def __init__(self, scene):
        self._background = scene.backgrounds[0]
        self.size = np.prod((2, len(self._background)))  # a numpy integer
        self._previous = 0

    def start(self, screen):
        self._previous = 0
        return self.step(screen)

    def step(self, screen):
        rows = np.flatnonzero((screen != self._background).any(axis=1))
        self._active = np.append(rows, len(self._background) + self._previous)
        self._previous = len(rows) // 2
        return self._active

    def state(self):
        return np.append(self._previous, self._active).astype("<i4").tobytes()

    def restore(self, state):
        numbers = np.frombuffer(state, dtype="<i4").astype(np.int64)
        self._previous, self._active = int(numbers[0]), numbers[1:]
        return self._active


class LateError(Rows):
    """Raises from the 70th call on, after the start of a run."""

    calls = 0

    def step(self, screen):
        self.calls += 1
        active = super().step(screen)
        return active if self.calls < 70 else self.faulty(active)

    def faulty(self, active):
        raise LookupError("no such row")


class LateOutOfRange(LateError):
    """Gives an input that is out of range, from the 70th call on."""

    def faulty(self, active):
        return np.append(active, self.size)


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


class IncompleteRestore(Rows):
    """Does not restore the number that the next observation depends on."""

    def restore(self, state):
        active = super().restore(state)
        self._previous = 3
        return active


class NoSize(Rows):
    def __init__(self, scene):
        super().__init__(scene)
        self.size = None


class NoTable(Rows):
    def __init__(self, scene):
        raise ValueError("no table")
