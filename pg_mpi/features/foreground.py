"""Screen → foreground: the pixels that differ from their background colours, as horizontal runs."""

import dataclasses
from typing import cast

import numpy as np
from numpy.typing import NDArray

Run = tuple[int, int, int, int]  # row, first column, last column, colour class

WIDTH = 160  # of every Atari screen; heights differ


@dataclasses.dataclass(frozen=True)
class Scene:
    """Backgrounds and colour classes of a game's screens, found by calibration.

    Attributes:
        backgrounds: uint8 (B, H, 160), background colours of each pixel, the most frequent one first.
        classes: uint8 (256,), colour class of each palette index, from 0.
    """

    backgrounds: NDArray[np.uint8]
    classes: NDArray[np.uint8]

    @property
    def height(self) -> int:
        """Number of rows of a screen."""
        return cast(int, self.backgrounds.shape[1])

    @property
    def colours(self) -> int:
        """Number of colour classes."""
        return int(self.classes.max()) + 1


def runs(screen: NDArray[np.uint8], scene: Scene) -> list[Run]:
    """Find the horizontal runs of foreground pixels of one colour class, in scan order.

    A pixel is in the foreground if it differs from all of its background colours.

    Args:
        screen: uint8 (H, 160), palette indices.

    Returns:
        list of (row, first column, last column, colour class).
    """
    active = (screen != scene.backgrounds).all(axis=0)
    pixels = active.ravel().nonzero()[0]
    if not len(pixels):
        return []
    colours = scene.classes[screen.ravel()[pixels]]
    starts = np.ones(len(pixels), dtype=bool)
    starts[1:] = (np.diff(pixels) != 1) | (pixels[1:] % WIDTH == 0) | (colours[1:] != colours[:-1])
    first = starts.nonzero()[0]
    last = np.append(first[1:], len(pixels)) - 1
    columns = (pixels[first] // WIDTH, pixels[first] % WIDTH, pixels[last] % WIDTH, colours[first])
    return list(zip(*(column.tolist() for column in columns)))
