"""Active pixels → sparse observation: the set of pixels that are not background, and what they tell.

An observation is a set of indices into two planes of 6,400 pixels, or, where the places of things do not tell them
apart, into two for each of C groups of colours (survey.py), now and before:

    pair        plane 0: active now           plane 1: active one step ago
    difference  plane 0: became active        plane 1: ceased to be active
    motion      plane 0, and what moved and how shapes stand to each other (motion.py), after all planes
    course      motion, and where what moves will arrive
    edge        course, but of each run of pixels in a row its left end alone

What moved says where it was, so the last three need no plane 1; in a crowd of shapes, where nobody can tell what
moved, they are ``pair``.
``difference`` is Karpathy's current-minus-previous frame: plane 0 holds its +1s and plane 1 its -1s.
"""

import numpy as np

from pg_mpi.game import motion
from pg_mpi.game.eye import PIXELS, pairs
from pg_mpi.game.shapes import left_ends, shapes

INPUTS = 2 * PIXELS
MOST_OF_SHAPES = 800  # active pixels of a screen in which shapes are looked for


class FrameEncoder:
    """Turns the screens of one env into observations.

    Args:
        kind: ``pair``, ``difference``, ``motion``, ``course`` or ``edge``.
        eye: an ``Eye``; those of one rank may share it.
    """

    def __init__(self, kind, eye):
        self._observe = getattr(self, f"_{kind}")
        self._look, self._size = eye.look, eye.size
        self._shift = 2 * (eye.size - PIXELS)  # of the inputs for what moved: the planes of all colours come first
        self._screen = self._even = None  # the buffer seen last, and its view as pairs of columns
        self._idle = np.ones(self._size, dtype=bool)  # not active one step ago; only ``difference`` keeps it
        self._earlier = self._before = self._now = np.empty(0, dtype=np.int64)
        self._shapes = None  # of the screens two steps ago and one; None: not known yet

    def start(self, screen):
        """The first observation of a game, int64 (n,): nothing moved yet."""
        self._now = self._before = self._earlier = self._pixels(screen)
        return self._observe_anew()

    def step(self, screen):
        """The observation after one more step, int64 (n,), plane 0 first."""
        self._earlier, self._before, self._now = self._before, self._now, self._pixels(screen)
        return self._observe()

    def _pixels(self, screen):
        if screen is not self._screen:  # an emulator writes into one buffer, so its view is made once
            self._screen, self._even = screen, pairs(screen)
        return self._look(self._even)

    def _pair(self):
        return np.concatenate((self._now, self._before + self._size))

    def _motion(self):
        return self._whole(self._moved(courses=False))

    def _course(self):
        return self._whole(self._moved())

    def _whole(self, moved):
        return self._pair() if moved is None else np.concatenate((self._now, _array(moved)))

    def _edge(self):
        moved = self._moved()
        return self._pair() if moved is None else _array(self._ends + moved)

    def _moved(self, courses=True):
        """The inputs for what moved, a list, or None where nobody can tell; and ``_ends``, the left ends of now."""
        earlier, before = self._shapes or (self._find(self._earlier), self._find(self._before))
        now = self._find(self._now)
        self._shapes = before, now
        if now is None or before is None or earlier is None:
            return None
        moved = motion.inputs(now, before, earlier)
        if moved and not courses:
            moved = [number for number in moved if number < motion.FIRST_COURSE]
        return [number + self._shift for number in moved] if moved and self._shift else moved

    def _find(self, pixels):
        """The shapes among active pixels of any colour; None where there are too many to look."""
        if len(pixels) > MOST_OF_SHAPES:
            return None
        self._ends = left_ends(pixels)
        return shapes(left_ends(np.sort(pixels % PIXELS)) if self._shift else self._ends)

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


def _array(numbers):
    return np.fromiter(numbers, np.int64, len(numbers))
