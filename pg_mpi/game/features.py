"""Screen → sparse observation: the set of pixels that are not background.

A screen is cut to rows 35:195, every second row and column: 80 x 80 positions. A position is *active* when
it shows none of its background colours. An observation is a set of indices into two planes of 6,400, or, where the
places of things do not tell them apart, into two for each of C groups of colours (survey.py), now and before:

    pair        plane 0: active now           plane 1: active one step ago
    difference  plane 0: became active        plane 1: ceased to be active
    motion      plane 0, and what moved and how shapes stand to each other (motion.py), after all planes
    course      motion, and where what moves will arrive

What moved says where it was, so ``motion`` and ``course`` need no plane 1; in a crowd of shapes, where nobody can
tell what moved, they are ``pair``.
``difference`` is Karpathy's current-minus-previous frame: plane 0 holds its +1s and plane 1 its -1s.
"""

import numpy as np

from pg_mpi.game import motion
from pg_mpi.game.shapes import HEIGHT, WIDTH, shapes

PIXELS = HEIGHT * WIDTH
INPUTS = 2 * PIXELS
MOST_OF_SHAPES = 800  # active pixels of a screen in which shapes are looked for
_LOW_BYTE = np.array(0xFF, dtype=np.uint16)


def crop(screen):
    """The 80 x 80 positions of a screen, a view: (..., H, 160) → (..., 80, 80)."""
    return screen[..., 35:195:2, ::2]


class FrameEncoder:
    """Turns the screens of one env into observations.

    Args:
        kind: ``pair``, ``difference``, ``motion`` or ``course``.
        backgrounds: uint8 (B, 80, 80), the background colours of each position.
        planes: uint8 (256,), the plane of each colour; None: there is one.
    """

    def __init__(self, kind, backgrounds, planes=None):
        kinds = {"pair": self._pair, "difference": self._difference, "motion": self._motion, "course": self._course}
        self._observe = kinds[kind]
        self._usual = backgrounds[0].astype(np.uint16)
        self._others = [plane.ravel().astype(np.uint16) for plane in backgrounds[1:]]
        self._colours = np.empty((HEIGHT, WIDTH), dtype=np.uint16)
        self._active = np.empty((HEIGHT, WIDTH), dtype=bool)
        self._flat_colours, self._flat_active = self._colours.ravel(), self._active.ravel()  # views
        self._screen = self._even = None  # the buffer seen last, and its view as pairs of columns
        self._size = PIXELS if planes is None else PIXELS * (1 + int(planes.max()))  # of all planes of one screen
        self._plane = planes * np.int64(PIXELS) if self._size > PIXELS else None  # its first input, by colour
        self._idle = np.ones(self._size, dtype=bool)  # not active one step ago; only ``difference`` keeps it
        self._earlier = self._before = self._now = np.empty(0, dtype=np.int64)
        self._shapes = None  # of the screens two steps ago and one; None: not known yet

    def start(self, screen):
        """The first observation of a game, int64 (n,): nothing moved yet."""
        self._now = self._before = self._earlier = self._look(screen)
        return self._observe_anew()

    def step(self, screen):
        """The observation after one more step, int64 (n,), plane 0 first."""
        self._earlier, self._before, self._now = self._before, self._now, self._look(screen)
        return self._observe()

    def _look(self, screen):
        """The active pixels of a screen, sorted: int64 (n,).

        Two columns are read as one 16-bit number, whose low byte is the even column: that is several times
        faster than a comparison with a stride. Rare backgrounds are looked up at the few pixels left over.
        """
        if screen is not self._screen:  # an emulator writes into one buffer, so its view is made once
            self._screen, self._even = screen, screen.view("<u2")[35:195:2]
        np.bitwise_and(self._even, _LOW_BYTE, out=self._colours)
        np.not_equal(self._colours, self._usual, out=self._active)
        pixels = self._flat_active.nonzero()[0]
        for background in self._others:
            pixels = pixels[self._flat_colours[pixels] != background[pixels]]
        return pixels if self._plane is None else np.sort(pixels + self._plane[self._flat_colours[pixels]])

    def _pair(self):
        return np.concatenate((self._now, self._before + self._size))

    def _motion(self):
        moved = self._moved()
        return self._with(moved and [number for number in moved if number < motion.FIRST_COURSE])

    def _course(self):
        return self._with(self._moved())

    def _moved(self):
        earlier, before = self._shapes or (self._find(self._earlier), self._find(self._before))
        now = self._find(self._now)
        self._shapes = before, now
        return None if now is None or before is None or earlier is None else motion.inputs(now, before, earlier)

    def _find(self, pixels):
        """The shapes among active pixels of any colour; None where there are too many to look."""
        if self._plane is not None:
            pixels = np.sort(pixels % PIXELS)
        return shapes(pixels) if len(pixels) <= MOST_OF_SHAPES else None

    def _with(self, moved):
        if moved is None:
            return self._pair()
        moved = np.fromiter(moved, np.int64, len(moved))
        return np.concatenate((self._now, moved if self._plane is None else moved + 2 * (self._size - PIXELS)))

    def _difference(self):
        now, before, idle = self._now, self._before, self._idle
        became = now[idle[now]]
        idle[before] = True
        idle[now] = False
        return np.concatenate((became, before[idle[before]] + self._size))

    def _observe_anew(self):
        """The observation, where nothing is known but the active pixels of the last screens."""
        self._shapes = None
        self._idle[:] = True
        self._idle[self._before] = False
        return self._observe()

    def state(self):
        """The three last active masks: uint8 (3, C * 800), packed bits."""
        masks = np.zeros((3, self._size), dtype=bool)
        masks[0, self._earlier] = masks[1, self._before] = masks[2, self._now] = True
        return np.packbits(masks, axis=1)

    def restore(self, state):
        """Continue after ``state``; returns the observation that was current then."""
        self._earlier, self._before, self._now = map(np.flatnonzero, np.unpackbits(state, axis=1))
        return self._observe_anew()
