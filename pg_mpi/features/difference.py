"""Karpathy's features: the difference of two screens, as in his Pong program.

Rows 35:195 of the screen, every second row and column: 80 x 80 positions, each 1 if it differs from its background
colours, else 0. Input p of the first 6,400 is active if position p changed to 1, input 6400 + p if it changed to 0: the
+1 and -1 of his difference frame. The crop is specific to Pong.

Source: Karpathy, "Deep Reinforcement Learning: Pong from Pixels" (2016).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pg_mpi.features.foreground import Scene

SIDE = 80
POSITIONS = SIDE * SIDE


class DifferenceEncoder:
    """Encoder of the difference of two screens; see ``Encoder``."""

    size = 2 * POSITIONS

    def __init__(self, scene: Scene) -> None:
        self._backgrounds = np.ascontiguousarray(_crop(scene.backgrounds))

    def start(self, screen: NDArray[np.uint8]) -> NDArray[np.int64]:
        """See ``Encoder``. No input is active."""
        self._before = self._now = self._active(screen)
        return self._changed()

    def step(self, screen: NDArray[np.uint8]) -> NDArray[np.int64]:
        """See ``Encoder``."""
        self._before, self._now = self._now, self._active(screen)
        return self._changed()

    def _active(self, screen: NDArray[np.uint8]) -> Any:
        return (_crop(screen) != self._backgrounds).all(axis=0).ravel()

    def _changed(self) -> NDArray[np.int64]:
        became, ceased = self._now & ~self._before, self._before & ~self._now
        return np.concatenate((became.nonzero()[0], ceased.nonzero()[0] + POSITIONS))

    def state(self) -> bytes:
        """See ``Encoder``: the positions of the previous and the current screen as packed bits."""
        return np.packbits([self._before, self._now]).tobytes()

    def restore(self, state: bytes) -> NDArray[np.int64]:
        """See ``Encoder``."""
        bits = np.unpackbits(np.frombuffer(state, dtype=np.uint8)).astype(bool)
        self._before, self._now = bits.reshape(2, POSITIONS)
        return self._changed()


def _crop(screen: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return screen[..., 35:195:2, ::2]
