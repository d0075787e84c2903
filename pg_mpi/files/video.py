"""Videos of a game's screens, mp4 or gif, without a display (extra: video)."""

import contextlib
import os
import shutil
import subprocess
from typing import IO, cast

import numpy as np
from numpy.typing import NDArray

from pg_mpi.config.errors import SystemFault, UsageError, system_faults
from pg_mpi.config.parsers import check_extra, check_output

SCALE = 2  # every pixel becomes 2 x 2
INPUT = "-v error -xerror -y -f rawvideo -pix_fmt rgb24 -s {width}x{height} -r {fps} -i -"
KINDS = {
    ".mp4": "-codec:v libx264 -pix_fmt yuv420p -crf 10",
    ".gif": "-filter_complex split[a][b];[a]palettegen[p];[b][p]paletteuse",
}


class Video:
    """Writes frames to a video file, by ffmpeg.

    Args:
        path: one that passes ``check``.
        fps: frames per second.
    """

    def __init__(self, path: str, fps: float) -> None:
        self._path, self._fps = path, fps
        self._ffmpeg: subprocess.Popen[bytes] | None = None

    def add(self, rgb: NDArray[np.uint8]) -> None:
        """Append one screen, uint8 (height, width, 3). Raises ``SystemFault`` if it cannot be written."""
        frame = rgb.repeat(SCALE, axis=0).repeat(SCALE, axis=1)
        if self._ffmpeg is None:
            from imageio_ffmpeg import get_ffmpeg_exe

            options = INPUT.format(height=len(frame), width=frame.shape[1], fps=self._fps).split()
            options += KINDS[os.path.splitext(self._path)[1].lower()].split()
            self._ffmpeg = subprocess.Popen([get_ffmpeg_exe(), *options, f"file:{self._path}"], stdin=subprocess.PIPE)
        with system_faults(f"{self._path} cannot be written"):
            cast(IO[bytes], self._ffmpeg.stdin).write(frame.tobytes())

    def close(self) -> None:
        """Finish the file. Raises ``SystemFault`` if ffmpeg fails."""
        if self._ffmpeg:
            self._ffmpeg.communicate()
            if self._ffmpeg.returncode:
                raise SystemFault(f"{self._path} could not be finished: is the disk full?")


def check(path: str) -> None:
    """Raise ``UsageError`` if a video cannot be written to ``path``."""
    check_output(path, "--video", KINDS)
    check_extra("imageio_ffmpeg", "video", "--video")
    from imageio_ffmpeg import get_ffmpeg_exe

    with contextlib.suppress(RuntimeError):  # it has found none
        if shutil.which(get_ffmpeg_exe()):
            return
    raise UsageError("--video finds no ffmpeg: unset IMAGEIO_FFMPEG_EXE, or let it name one")
