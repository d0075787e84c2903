"""Encoder protocol, and the general features in numpy."""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pg_mpi.features import blob_inputs, blobs
from pg_mpi.features.foreground import Scene, runs


class Encoder(Protocol):
    """Protocol of encoders, also for custom features (``--features package.module:Class``, see docs/custom.md).

    An observation is the set of active inputs: int64 (n,), sorted, without duplicates, from 0 to ``size - 1``. The
    caller does not modify it and may keep it. It depends only on the screens of the game.

    Args:
        scene: ``Scene`` of the game, found by calibration.

    Attributes:
        size: number of inputs, the same for every env of a game.
    """

    size: int

    def __init__(self, scene: Scene) -> None: ...

    def start(self, screen: NDArray[Any]) -> NDArray[Any]:
        """Return the observation of a game's first screen, uint8 (H, 160), palette indices."""

    def step(self, screen: NDArray[Any]) -> NDArray[Any]:
        """Return the observation after one more step. ``screen`` is one buffer that every step overwrites."""

    def state(self) -> bytes:
        """Return the current observation and all that the next one depends on besides the next screen."""

    def restore(self, state: bytes) -> NDArray[Any]:
        """Continue from ``state``; return the observation that was current then. Raises ValueError if malformed."""


class BlobEncoder:
    """General features of any game, see ``blob_inputs``. The reference implementation of ``encoder.c``."""

    def __init__(self, scene: Scene) -> None:
        self._scene, self._layout = scene, blob_inputs.Layout(scene.colours)
        self.size = self._layout.size
        self.blobs: list[blobs.Blob] = []

    def start(self, screen: NDArray[np.uint8]) -> NDArray[np.int64]:
        """See ``Encoder``."""
        self.blobs = []
        return self.step(screen)

    def step(self, screen: NDArray[np.uint8]) -> NDArray[np.int64]:
        """See ``Encoder``."""
        found = runs(screen, self._scene)
        self.blobs = blobs.track(blobs.find(found) or [], self.blobs, self._scene.height)
        active = blob_inputs.tiles(found, self._layout) | blob_inputs.inputs(self.blobs, self._layout)
        self._observation = np.array(sorted(active), dtype=np.int64)
        return self._observation

    def state(self) -> bytes:
        """See ``Encoder``: the number of blobs, int32; the blobs, int16; the observation, int32."""
        seen = np.array(self.blobs, dtype="<i2")
        return np.int32(len(seen)).tobytes() + seen.tobytes() + self._observation.astype("<i4").tobytes()

    def restore(self, state: bytes) -> NDArray[np.int64]:
        """See ``Encoder``."""
        seen, self._observation = unpack(state, self.size)
        self.blobs = [blobs.Blob(*map(int, row)) for row in seen]
        return self._observation


def unpack(state: bytes, size: int) -> tuple[NDArray[np.int16], NDArray[np.int64]]:
    """Unpack a state of the general features: blobs int16 (n, fields), observation int64 (m,). Raises ValueError."""
    fields = len(blobs.Blob._fields)
    count = int(np.frombuffer(state, "<i4", 1)[0])
    if not 0 <= count <= blobs.MOST_BLOBS:
        raise ValueError(f"invalid number of blobs: {count}")
    end = 4 + 2 * fields * count
    seen = np.frombuffer(state[4:end], dtype="<i2").reshape(count, fields)
    observation = np.frombuffer(state[end:], dtype="<i4").astype(np.int64)
    if len(observation) and (observation[0] < 0 or observation[-1] >= size or (np.diff(observation) <= 0).any()):
        raise ValueError("the saved observation is not a sorted set of inputs")
    return seen, observation
