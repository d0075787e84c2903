"""General features by ``encoder.c``, with the same observations as ``BlobEncoder``.

Installation compiles ``encoder.c`` if there is a C compiler. If there is none, or with ``PG_MPI_NUMPY=1`` in the
environment, ``LIBRARY`` is None, ``WHY_NUMPY`` is the reason, and ``BlobEncoder`` is used.
"""

import contextlib
import ctypes
import os
import sys
import sysconfig
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pg_mpi.features import blob_inputs
from pg_mpi.features.blobs import MOST_BLOBS, Blob
from pg_mpi.features.encoder import unpack
from pg_mpi.features.foreground import Scene

_BLOBS = np.dtype([("count", "i4"), ("blob", [(name, "i2") for name in Blob._fields], MOST_BLOBS)])
_MEMORY = np.dtype(
    [(name, np.uintp) for name in ("screen", "backgrounds", "classes", "found")]
    + [(name, "i4") for name in ("height", "background_count", "colours", "now")]
    + [("seen", _BLOBS, 2)],
    align=True,
)


def _load() -> tuple[Any, str | None]:
    """Return (library, None), or (None, reason).

    The library must be compiled from this folder's ``encoder.c``. It may belong to another copy of the package on
    Python's path: a clone that is run from its own folder uses the library of the installed package.
    """
    if os.environ.get("PG_MPI_NUMPY", "0") not in ("", "0"):
        return None, "PG_MPI_NUMPY is set"
    here, name = Path(__file__).parent, "libencoder" + (sysconfig.get_config_var("EXT_SUFFIX") or ".so")
    for folder in (here, *(Path(entry, "pg_mpi", "features") for entry in sys.path)):
        with contextlib.suppress(OSError, AttributeError):
            source = zlib.crc32((here / "encoder.c").read_bytes())
            # PyDLL holds the GIL: releasing it takes longer than an observation
            found = ctypes.PyDLL(str(folder / name))
            found.encoder_source.restype = ctypes.c_uint32
            found.encoder_bytes.restype = found.encoder_most_found.restype = ctypes.c_int64
            if (found.encoder_source(), found.encoder_bytes()) == (source, _MEMORY.itemsize):
                return found, None
    return None, "encoder.c is not compiled: reinstall with pip where there is a C compiler (cc)"


LIBRARY, WHY_NUMPY = _load()
_found = np.empty(LIBRARY.encoder_most_found() if LIBRARY else 0, dtype=np.int64)  # latest observation of any env


class NativeEncoder:
    """``BlobEncoder`` in C, with the same arguments, methods and arrays."""

    def __init__(self, scene: Scene) -> None:
        self.size = blob_inputs.Layout(scene.colours).size
        self._shape = scene.height, scene.backgrounds.shape[2]
        self._arrays = [np.ascontiguousarray(array, dtype=np.uint8) for array in (scene.backgrounds, scene.classes)]
        self._memory = memory = np.zeros((), dtype=_MEMORY)
        memory["backgrounds"], memory["classes"] = (array.ctypes.data for array in self._arrays)
        memory["found"] = _found.ctypes.data
        memory["height"], memory["background_count"] = scene.height, len(scene.backgrounds)
        memory["colours"] = scene.colours
        self._screen: NDArray[np.uint8] | None
        self._screen, self._at = None, ctypes.c_void_p(memory.ctypes.data)
        self._start, self._step = LIBRARY.encoder_start, LIBRARY.encoder_step

    @property
    def blobs(self) -> list[Blob]:
        """Tracked blobs of the last screen, a list of ``Blob``."""
        return [Blob(*row) for row in self._rows().tolist()]

    def start(self, screen: NDArray[np.uint8]) -> NDArray[np.int64]:
        """See ``Encoder``."""
        self._set_screen(screen)
        self._observation = _found[: self._start(self._at)].copy()
        return self._observation

    def step(self, screen: NDArray[np.uint8]) -> NDArray[np.int64]:
        """See ``Encoder``."""
        if screen is not self._screen:
            self._set_screen(screen)
        self._observation = _found[: self._step(self._at)].copy()
        return self._observation

    def _set_screen(self, screen: NDArray[np.uint8]) -> None:
        if screen.dtype != np.uint8 or not screen.flags.c_contiguous or screen.shape != self._shape:
            raise ValueError(f"a screen must be contiguous uint8 {self._shape}, not {screen.dtype} {screen.shape}")
        self._screen = screen
        self._memory["screen"] = screen.ctypes.data

    def _rows(self) -> Any:
        seen = self._memory["seen"][int(self._memory["now"])]
        return seen["blob"][: seen["count"]]

    def state(self) -> bytes:
        """See ``BlobEncoder.state``."""
        rows: NDArray[Any] = self._rows()
        return np.int32(len(rows)).tobytes() + rows.tobytes() + self._observation.astype("<i4").tobytes()

    def restore(self, state: bytes) -> NDArray[np.int64]:
        """See ``Encoder``."""
        rows, self._observation = unpack(state, self.size)
        seen = self._memory["seen"][int(self._memory["now"])]
        seen["count"] = len(rows)
        seen["blob"][: len(rows)] = rows.copy().view(_BLOBS["blob"].base).reshape(-1)
        return self._observation
