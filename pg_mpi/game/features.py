"""Screen → sparse observation: the set of pixels that are not background.

A screen is cut to rows 35:195, every second row and column: 80 x 80 positions. A position is *active* when
it shows none of its background colours. An observation is a set of indices into two planes of 6,400:

    pair        plane 0: active now           plane 1: active one step ago
    difference  plane 0: became active        plane 1: ceased to be active

``difference`` is Karpathy's current-minus-previous frame: plane 0 holds its +1s and plane 1 its -1s.
"""

import numpy as np

HEIGHT = WIDTH = 80
PIXELS = HEIGHT * WIDTH
INPUTS = 2 * PIXELS
FEATURES = ("pair", "difference")


def crop(screen):
    """The 80 x 80 positions of a screen, a view: (..., H, 160) → (..., 80, 80)."""
    return screen[..., 35:195:2, ::2]


class FrameEncoder:
    """Turns the screens of one env into observations.

    Args:
        kind: ``pair`` or ``difference``.
        backgrounds: uint8 (B, 80, 80), the background colours of each position.
    """

    def __init__(self, kind, backgrounds):
        self._pair = kind == "pair"
        self._backgrounds = [np.ascontiguousarray(plane) for plane in backgrounds]
        self._now = np.zeros((HEIGHT, WIDTH), dtype=bool)
        self._before = np.zeros((HEIGHT, WIDTH), dtype=bool)
        self._scratch = np.empty((HEIGHT, WIDTH), dtype=bool)
        self._pixels = np.empty(0, dtype=np.int64)  # active now, for the next pair's plane 1

    def start(self, screen):
        """The first observation of a game, int64 (n,): nothing moved yet."""
        self._look(screen)
        self._before[...] = self._now
        return self._observation(fresh=True)

    def step(self, screen):
        """The observation after one more step, int64 (n,), sorted within each plane."""
        self._before, self._now = self._now, self._before
        self._look(screen)
        return self._observation(fresh=False)

    def _look(self, screen):
        view, first = crop(screen), self._backgrounds[0]
        np.not_equal(view, first, out=self._now)
        for background in self._backgrounds[1:]:
            np.not_equal(view, background, out=self._scratch)
            self._now &= self._scratch

    def _observation(self, fresh):
        if not self._pair:
            changed = np.flatnonzero(self._now != self._before)
            return changed + PIXELS * self._before.ravel()[changed]
        pixels = np.flatnonzero(self._now)
        before = pixels if fresh else self._pixels
        self._pixels = pixels
        return np.concatenate((pixels, before + PIXELS))

    def state(self):
        """The two last active masks: uint8 (2, 800), packed bits."""
        return np.packbits(np.stack((self._before, self._now)).reshape(2, PIXELS), axis=1)

    def restore(self, state):
        """Continue after ``state``; returns the observation that was current then."""
        masks = np.unpackbits(state, axis=1).astype(bool).reshape(2, HEIGHT, WIDTH)
        self._before[...], self._now[...] = masks
        self._pixels = np.flatnonzero(self._before)
        return self._observation(fresh=False)
