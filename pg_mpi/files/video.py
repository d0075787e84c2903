"""Videos of a game's screens, mp4 or gif, without a display (extra: video)."""

import os
from collections.abc import Generator
from typing import Any

import numpy as np
from numpy.typing import NDArray

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

    def add(self, rgb: NDArray[np.uint8]) -> None:
        """Append one screen, uint8 (height, width, 3)."""
        frame = rgb.repeat(SCALE, axis=0).repeat(SCALE, axis=1)
        if self._writer is None:
            import imageio_ffmpeg

            size, options = frame.shape[1::-1], KINDS[os.path.splitext(self._path)[1].lower()]
            self._writer = imageio_ffmpeg.write_frames(self._path, size, fps=self._fps, macro_block_size=2, **options)
            self._writer.send(None)
        self._writer.send(frame.tobytes())

    def close(self) -> None:
        """Finish the file."""
        if self._writer is not None:
            self._writer.close()


def check(path: str) -> None:
    """Raise ``UsageError`` if a video cannot be written to ``path``."""
    check_output(path, "--video", KINDS)
    check_extra("imageio_ffmpeg", "video", "--video")
