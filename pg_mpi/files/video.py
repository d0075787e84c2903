"""Videos of a game's screens, mp4 or gif, without a display (extra: video)."""

import contextlib
import os
from collections.abc import Generator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pg_mpi.config.errors import SystemFault, system_faults
from pg_mpi.config.parsers import check_extra, check_output

SCALE = 2  # every pixel becomes 2 x 2
KINDS: dict[str, dict[str, Any]] = {
    ".mp4": {"codec": "libx264", "quality": 8},
    ".gif": {
        "codec": "gif",
        "pix_fmt_out": "pal8",
        "output_params": ["-filter_complex", "split[a][b];[a]palettegen[p];[b][p]paletteuse"],
    },
}


class Video:
    """Writes frames to a video file.

    Args:
        path: one that passes ``check``.
        fps: frames per second.
    """

    def __init__(self, path: str, fps: float) -> None:
        self._path, self._fps = path, fps
        self._writer: Generator[None, Any, None] | None = None
        self._frames = 0

    def add(self, rgb: NDArray[np.uint8]) -> None:
        """Append one screen, uint8 (height, width, 3). Raises ``SystemFault`` if it cannot be written."""
        frame = rgb.repeat(SCALE, axis=0).repeat(SCALE, axis=1)
        if self._writer is None:
            import imageio_ffmpeg

            size, options = frame.shape[1::-1], KINDS[os.path.splitext(self._path)[1].lower()]
            self._writer = imageio_ffmpeg.write_frames(self._path, size, fps=self._fps, macro_block_size=2, **options)
            self._writer.send(None)
        with system_faults(f"{self._path} cannot be written"):
            self._writer.send(frame.tobytes())
        self._frames += 1

    def close(self) -> None:
        """Finish the file. Raises ``SystemFault`` if it is not a video: ffmpeg's own exit code is lost."""
        if self._writer is not None:
            self._writer.close()
            whole = False
            with contextlib.suppress(OSError, RuntimeError):
                whole = self._is_whole()
            if not whole:
                raise SystemFault(f"{self._path} could not be finished: is the disk full?")

    def _is_whole(self) -> bool:
        import imageio_ffmpeg

        if not self._path.lower().endswith(".gif"):
            return bool(imageio_ffmpeg.count_frames_and_secs(self._path)[0] == self._frames)
        with open(self._path, "rb") as file:  # a frame that is cut off counts too
            file.seek(-1, os.SEEK_END)
            return file.read() == b";"


def check(path: str) -> None:
    """Raise ``UsageError`` if a video cannot be written to ``path``."""
    check_output(path, "--video", KINDS)
    check_extra("imageio_ffmpeg", "video", "--video")
