"""General features without one group of inputs, to measure what the group is worth: ``searches/inputs.json``.

Inputs keep their numbers, so that all variants start from the same weights.
"""

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from pg_mpi.features.blob_inputs import Layout
from pg_mpi.features.foreground import Scene
from pg_mpi.features.registry import OURS


class WithoutTiles:
    """General features without the blocks of ``left_out``; see ``Encoder``."""

    left_out: ClassVar[tuple[str, ...]] = ("tiles",)

    def __init__(self, scene: Scene) -> None:
        self._all, layout = OURS["blobs"](scene), Layout(scene.colours)
        self.size = layout.size
        self._kept = np.ones(self.size, dtype=bool)
        for block in self.left_out:
            self._kept[layout.numbers(block)] = False

    def start(self, screen: NDArray[np.uint8]) -> NDArray[np.int64]:
        """See ``Encoder``."""
        return self._without(self._all.start(screen))

    def step(self, screen: NDArray[np.uint8]) -> NDArray[np.int64]:
        """See ``Encoder``."""
        return self._without(self._all.step(screen))

    def state(self) -> bytes:
        """See ``Encoder``."""
        return self._all.state()

    def restore(self, state: bytes) -> NDArray[np.int64]:
        """See ``Encoder``."""
        return self._without(self._all.restore(state))

    def _without(self, observation: NDArray[np.int64]) -> NDArray[np.int64]:
        return observation[self._kept[observation]]


class WithoutPlaces(WithoutTiles):
    """Without rows and columns of blobs."""

    left_out = ("rows", "columns")


class WithoutMoves(WithoutTiles):
    """Without steps of moving blobs."""

    left_out = ("moves",)


class WithoutRelations(WithoutTiles):
    """Without offsets between blobs."""

    left_out = ("offsets", "relations")


class WithoutCrossings(WithoutTiles):
    """Without predicted crossings."""

    left_out = ("crossings", "drifting")


class WithoutPlacesAndMoves(WithoutTiles):
    """With tiles and pairs of blobs only."""

    left_out = ("rows", "columns", "moves")
