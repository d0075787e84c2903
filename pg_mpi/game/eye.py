"""Screen → active pixels: what is not background.

A screen is cut to rows 35:195, every second row and column: 80 x 80 positions. A position is *active* when it shows
none of its background colours.
"""

import numpy as np

from pg_mpi.game.shapes import HEIGHT, WIDTH

PIXELS = HEIGHT * WIDTH
_LOW_BYTE = np.array(0xFF, dtype=np.uint16)


def crop(screen):
    """The 80 x 80 positions of a screen, a view: (..., H, 160) → (..., 80, 80)."""
    return screen[..., 35:195:2, ::2]


def pairs(screen):
    """A screen's 80 rows, two columns as one number whose low byte is the even one: a view, uint16 (80, 80)."""
    return screen.view("<u2")[35:195:2]


class Eye:
    """Finds the active pixels of screens.

    One serves all envs of a rank: its 50 kB stay in the caches then, of which each emulator's step would clear another
    part if every env had its own.

    Args:
        backgrounds: uint8 (B, 80, 80), the background colours of each position.
        planes: uint8 (256,), the plane of each colour; None: there is one.

    Attributes:
        usual: uint16 (80, 80), the usual background as ``pairs`` shows it.
        rare: uint8 (B - 1, 6400), the other ones.
        planes: uint8 (256,).
        size: positions of all planes.
    """

    def __init__(self, backgrounds, planes=None):
        self.usual = np.ascontiguousarray(backgrounds[0], dtype="<u2")
        self.rare = np.ascontiguousarray(backgrounds[1:], dtype=np.uint8).reshape(-1, PIXELS)
        self.planes = np.zeros(256, dtype=np.uint8) if planes is None else np.ascontiguousarray(planes, dtype=np.uint8)
        self._colours = np.empty((HEIGHT, WIDTH), dtype=np.uint16)
        self._active = np.empty((HEIGHT, WIDTH), dtype=bool)
        self._flat_colours, self._flat_active = self._colours.ravel(), self._active.ravel()  # views
        self.size = PIXELS * (1 + int(self.planes.max()))
        self._plane = self.planes * np.int64(PIXELS) if self.size > PIXELS else None  # its first input, by colour

    def look(self, even):
        """The active pixels of a screen, given as ``pairs``: sorted int64 (n,), plane after plane.

        Reading two columns as one number is several times faster than a comparison with a stride. Rare backgrounds
        are looked up at the few pixels left over.
        """
        np.bitwise_and(even, _LOW_BYTE, out=self._colours)
        np.not_equal(self._colours, self.usual, out=self._active)
        pixels = self._flat_active.nonzero()[0]
        for background in self.rare:
            pixels = pixels[self._flat_colours[pixels] != background[pixels]]
        return pixels if self._plane is None else np.sort(pixels + self._plane[self._flat_colours[pixels]])
