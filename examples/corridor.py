"""A custom environment: ``--env-id examples.corridor:Corridor``.

A corridor of ten cells, with coins behind one of its ends. A step goes to the left or to the right; the end with the
coins pays 1, the other one -1, and after 60 steps the game is cut off.
"""

import json
from types import SimpleNamespace

import numpy as np

CELLS, LIMIT = 10, 60


class Corridor:
    """See docs/custom.md: spaces, ``reset`` and ``step``; with ``state`` and ``restore`` it resumes bit for bit."""

    #: The position, from -1 to 1, and the side of the coins. Gymnasium's own spaces work too.
    observation_space = SimpleNamespace(shape=(2,), low=-1.0, high=1.0)
    action_space = SimpleNamespace(n=2)

    def reset(self, seed=None):
        """Start a new game: (observation, info)."""
        self._coins = 1 if np.random.default_rng(seed).random() < 0.5 else -1
        self._cell, self._steps = CELLS // 2, 0
        return self._see(), {}

    def step(self, action):
        """Take a step: (observation, reward, terminated, truncated, info)."""
        self._cell += 1 if action else -1
        self._steps += 1
        end = -1 if self._cell < 0 else 1 if self._cell >= CELLS else 0
        return self._see(), float(end * self._coins), end != 0, self._steps >= LIMIT, {}

    def state(self):
        """All that the next step depends on, as bytes."""
        return json.dumps([self._coins, self._cell, self._steps]).encode()

    def restore(self, state):
        """Continue from a saved state. Raises ValueError for malformed data."""
        self._coins, self._cell, self._steps = map(int, json.loads(state))

    def _see(self):
        return np.array([2 * self._cell / CELLS - 1, self._coins], np.float32)
