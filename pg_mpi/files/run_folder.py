"""The run folder: its lock, ``config.json``, the DONE mark, and the paths of its files.

Rank 0 only, except ``starts``.
"""

import contextlib
import glob
import os
from collections.abc import Iterator, Mapping
from typing import Any, TextIO, cast

from pg_mpi.config.errors import system_faults
from pg_mpi.files.atomic_file import (
    TEMPORARY,
    exists,
    keep_copy,
    make_folder,
    read_list,
    sync_folder,
    unless_missing,
    write_json,
    writing,
)
from pg_mpi.files.folder_lock import FolderLock
from pg_mpi.files.provenance import utc


class RunFolder:
    """A run's folder, locked for this process from ``open`` to ``unlock``.

    Attributes:
        path: the folder.
        checkpoints: the folder of its checkpoints.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.checkpoints = os.path.join(path, "checkpoints")
        self._lock: FolderLock | None = None

    def file(self, name: str) -> str:
        """The path of a file in the folder."""
        return os.path.join(self.path, name)

    def make(self, name: str) -> str:
        """Make a subfolder, unless it exists; returns its path. Raises ``SystemFault``."""
        path = self.file(name)
        with writing(path):
            make_folder(path)
        return path

    def open(self) -> None:
        """Make and lock the folder. Raises ``UsageError`` or ``SystemFault`` if it cannot be written or is in use."""
        with system_faults(f"the run folder {self.path} cannot be written", "give another --run-dir", given=True):
            make_folder(self.path)
            sync_folder(os.path.dirname(os.path.abspath(self.path)))  # which somebody may have made before
            self._lock = FolderLock(self.path)

    def claim(self) -> None:
        """Take the opened folder over, once nothing refuses the start. Raises ``SystemFault``."""
        with system_faults(f"the run folder {self.path} cannot be written"):
            cast(FolderLock, self._lock).claim()
        self._remove_temporary_files()

    def check(self) -> None:
        """Raise ``RunError`` if the folder has been removed, replaced or taken over since it was opened."""
        if self._lock:
            self._lock.check()

    @contextlib.contextmanager
    def replacing(self) -> Iterator[None]:
        """Context for a file that is replaced. Whoever has taken the folder over may remove the temporary one.

        Raises ``RunError`` as ``check`` does.
        """
        try:
            yield
        except FileNotFoundError:
            self.check()
            raise

    def unlock(self) -> None:
        """Give the lock back: nothing more is written."""
        if self._lock:
            self._lock.close()
            self._lock = None

    def _remove_temporary_files(self) -> None:
        """Remove the temporary files of killed trainers."""
        parts = glob.glob(os.path.join(glob.escape(self.checkpoints), "*.parts"))
        for folder in (self.path, self.checkpoints, *parts):
            with contextlib.suppress(OSError):
                for name in filter(TEMPORARY.fullmatch, os.listdir(folder)):
                    os.remove(os.path.join(folder, name))

    def reopen(self) -> None:
        """Remove the DONE mark, because a larger budget continues the run."""
        with unless_missing():
            os.remove(self.file("DONE"))

    def begin(self, settings: Mapping[str, Any], facts: Mapping[str, Any]) -> int:
        """Write ``config.json`` with this start added; returns the number of earlier starts."""
        starts = self.starts()
        if not starts and exists(self.file("config.json")):
            keep_copy(self.file("config.json"), "the history of starts begins again")
        write_json(self.file("config.json"), {"settings": settings, "starts": [*starts, facts]})
        return len(starts)

    def end(self, settings: Mapping[str, Any], reason: str) -> None:
        """Add the reason and the time of its end to the last start in ``config.json``, unless that is damaged."""
        starts = self.starts()
        if starts:
            starts[-1]["ended"] = {"time": utc(), "reason": reason}
            with self.replacing():
                write_json(self.file("config.json"), {"settings": settings, "starts": starts})

    def starts(self) -> list[dict[str, Any]]:
        """The facts of the folder's starts so far; none if ``config.json`` is damaged. Raises ``SystemFault``."""
        return read_list(self.file("config.json"), lambda content: [dict(start) for start in content["starts"]])


def output_of(folder: str | None) -> TextIO:
    """Open a folder's output.txt to append to; without a folder, ``os.devnull``."""
    return open(
        os.path.join(folder, "output.txt") if folder else os.devnull, "a", encoding="utf-8", errors="backslashreplace"
    )
