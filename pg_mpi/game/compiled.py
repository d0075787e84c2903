"""Observations by ``look.c``: those of a ``FrameEncoder``, number for number, in a fifth to a tenth of the time.

Installing compiles it where there is a C compiler. Where there was none, or with ``PG_MPI_NUMPY=1`` in the environment,
``LOOK`` is None, ``WHY_NUMPY`` says why, and a ``FrameEncoder`` does the work.
"""

import contextlib
import ctypes
import os
import sys
import sysconfig
import zlib
from pathlib import Path

import numpy as np

from pg_mpi.game import motion
from pg_mpi.game.eye import PIXELS

KINDS = ("pair", "difference", "motion", "course", "edge")  # in the order of look.c
_SCENE = np.dtype([("count", "i4"), ("shapes", "i4"), ("number", "i4", PIXELS), ("shape", "i4", (800, 2))])
_MEMORY = np.dtype(
    [(name, np.uintp) for name in ("screen", "usual", "rare", "plane", "found")]
    + [(name, "i4") for name in ("kind", "rare_count", "planes", "now")]
    + [("scene", _SCENE, 3)],
    align=True,
)


def _load():
    """The library, or None, and why it is None.

    It must be compiled from the very ``look.c`` beside this file. It may lie beside another copy of the package that
    Python knows: a clone that is run from its own folder beside what was installed of it.
    """
    if os.environ.get("PG_MPI_NUMPY", "0") not in ("", "0"):
        return None, "as PG_MPI_NUMPY asks"
    here, name = Path(__file__).parent, "look" + (sysconfig.get_config_var("EXT_SUFFIX") or ".so")
    for folder in (here, *(Path(entry, "pg_mpi", "game") for entry in sys.path)):
        with contextlib.suppress(OSError, AttributeError):
            source = zlib.crc32((here / "look.c").read_bytes())
            # PyDLL keeps the interpreter's lock, which takes longer to give than a look
            found = ctypes.PyDLL(str(folder / name))
            found.look_source.restype, found.look_bytes.restype = ctypes.c_uint32, ctypes.c_int64
            if (found.look_source(), found.look_bytes()) == (source, _MEMORY.itemsize):
                return found, None
    return None, "look.c is not compiled: install again, with pip, where there is a C compiler (cc)"


LOOK, WHY_NUMPY = _load()
_found = np.empty(2 * PIXELS + motion.INPUTS, dtype=np.int64)  # where look.c leaves an observation, of any env


class CompiledEncoder:
    """A ``FrameEncoder`` made of a ``look.c`` memory; the same verbs, arguments and arrays."""

    def __init__(self, kind, eye):
        self._memory, self._eye = np.zeros((), dtype=_MEMORY), eye
        for name, array in (("usual", eye.usual), ("rare", eye.rare), ("plane", eye.planes), ("found", _found)):
            self._memory[name] = array.ctypes.data
        self._memory["kind"], self._memory["rare_count"] = KINDS.index(kind), len(eye.rare)
        self._memory["planes"] = eye.size // PIXELS
        self._screen, self._at = None, ctypes.c_void_p(self._memory.ctypes.data)
        self._step, self._start, self._again = LOOK.look_step, LOOK.look_start, LOOK.look_again

    def start(self, screen):
        """The first observation of a game, int64 (n,): nothing moved yet."""
        self._face(screen)
        return _found[: self._start(self._at)].copy()

    def step(self, screen):
        """The observation after one more step, int64 (n,), plane 0 first."""
        if screen is not self._screen:  # an emulator writes into one buffer
            self._face(screen)
        return _found[: self._step(self._at)].copy()

    def _face(self, screen):
        if (
            screen.dtype != np.uint8
            or not screen.flags.c_contiguous
            or screen.shape[0] < 195
            or screen.shape[1:] != (160,)
        ):
            raise ValueError(f"a screen of {screen.dtype} {screen.shape}")
        self._screen = screen
        self._memory["screen"] = screen.ctypes.data

    def _scenes(self):
        """The scenes in memory: two steps ago, one step ago, now."""
        now = int(self._memory["now"])
        return [self._memory["scene"][(now + k) % 3] for k in (1, 2, 3)]

    def state(self):
        """The three last active masks: uint8 (3, C * 800), packed bits."""
        masks = np.zeros((3, self._eye.size), dtype=bool)
        for mask, scene in zip(masks, self._scenes()):
            mask[scene["number"][: scene["count"]]] = True
        return np.packbits(masks, axis=1)

    def restore(self, state):
        """Continue after ``state``; returns the observation that was current then."""
        if state.shape != (3, self._eye.size // 8):
            raise ValueError(f"masks of shape {state.shape}")
        for bits, scene in zip(np.unpackbits(state, axis=1), self._scenes()):
            numbers = np.flatnonzero(bits)
            if len(np.unique(numbers % PIXELS)) < len(numbers):
                raise ValueError("a pixel of two colours")
            scene["count"] = len(numbers)
            scene["number"][: len(numbers)] = numbers
        return _found[: self._again(self._at)].copy()
