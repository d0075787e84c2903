"""Locks of files, and the lock of a run folder, so that one trainer writes into it.

The kernel locks the file ``lock`` and releases it when the process ends, so there are no stale locks. The file holds
the name of the newest trainer whose settings fit. Any other stops before its next write, also where the file system has
no locks, or where they do not hold between hosts.
"""

import errno
import fcntl
import os
import platform
import time
import weakref
from typing import IO, Any

from pg_mpi.config.errors import RunError, SystemFault, system_faults, warn
from pg_mpi.files.atomic_file import no_link, unless_missing

PATIENCE = 10.0  # seconds: the ranks of a killed job take a moment to end
UNSUPPORTED = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EINVAL)


_held: "weakref.WeakSet[IO[str]]" = weakref.WeakSet()


def _let_go() -> None:
    """Close the locked files in a forked child, which would hold the locks longer than this process."""
    for file in _held:
        file.close()


os.register_at_fork(after_in_child=_let_go)


class FolderLock:
    """The lock of ``folder``, held from the constructor to ``close`` or the end of the process.

    Raises ``SystemFault`` with exit code 75 if another process holds it, and ``OSError``.
    """

    def __init__(self, folder: str) -> None:
        self._folder, self._path = folder, os.path.join(folder, "lock")
        self._name = f"{platform.node()} process {os.getpid()}"
        self._file, refused = _lock_for(self._path, PATIENCE)
        if refused == errno.EWOULDBLOCK:
            used = f"the run folder {folder} is in use by {self._read_name() or 'another process'}"
            dead = f"if its host is dead, remove {self._path}"
            raise SystemFault(f"{used}: stop that trainer ({dead}), or give another --run-dir", may_pass=True)
        if refused:
            warn(f"{folder} is on a file system without locks: a second trainer there would take the folder over")

    def claim(self) -> None:
        """Write this trainer's name. Any other that uses the folder, where locks do not hold, stops then."""
        os.ftruncate(self._file.fileno(), 0)
        os.write(self._file.fileno(), f"{self._name}\n".encode())

    def _read_name(self) -> str:
        """The last name in the file: without locks, two trainers that start together write both."""
        names = os.pread(self._file.fileno(), 4096, 0).decode(errors="replace").split("\n")
        return names[-2] if len(names) > 1 else names[0]

    def check(self) -> None:
        """Raise ``RunError`` if the folder has been removed or replaced, or another trainer has taken it."""
        try:
            lost = not os.path.samestat(os.fstat(self._file.fileno()), os.stat(self._path))
        except FileNotFoundError:
            lost = True
        if lost or self._read_name() not in ("", self._name):
            line = f"the run folder {self._folder} was removed or taken over while in use: nothing more is written; "
            raise RunError(line + "give each trainer its own --run-dir")

    def close(self) -> None:
        """Give the lock back."""
        self._file.close()


def is_held(folder: str) -> bool:
    """Whether a process, perhaps on another host, holds the lock of a run folder. Raises ``SystemFault``.

    True on a file system without locks, where it cannot be known: a second trainer would end a first one.
    """
    path = os.path.join(folder, "lock")
    with system_faults(f"the lock of {folder} cannot be read"), unless_missing(), open(path, "rb") as file:
        return bool(_lock(file, fcntl.LOCK_SH))
    return False


def take_lock(folder: str, name: str, patience: float = 0.0) -> IO[str] | None:
    """Lock the file ``name`` of a folder until it is closed or the process ends.

    None if another process holds it for ``patience`` seconds. Raises ``SystemFault``, also on a file system without
    locks.
    """
    with system_faults(f"{folder} cannot be locked"):
        file, refused = _lock_for(os.path.join(folder, name), patience)
        if not refused:
            return file
        file.close()
        if refused in UNSUPPORTED:
            raise SystemFault(f"{folder} cannot be locked ({os.strerror(refused)}): use a folder with locks")
        return None


def _lock_for(path: str, patience: float) -> tuple[IO[str], int]:
    """Lock the file ``path``, waiting ``patience`` seconds; returns it and what ``_lock`` does. Raises ``OSError``."""
    file = open(path, "a+", encoding="utf-8", opener=no_link)  # noqa: SIM115 held as long as the lock
    _held.add(file)
    deadline = time.monotonic() + patience
    while (refused := _lock(file, fcntl.LOCK_EX)) == errno.EWOULDBLOCK and time.monotonic() < deadline:
        time.sleep(0.01)
    return file, refused


def _lock(file: IO[Any], kind: int) -> int:
    """Lock a file at once: 0, ``EWOULDBLOCK`` if another process holds it, or one of ``UNSUPPORTED``.

    Raises ``OSError`` for any other error number.
    """
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
        return 0
    except OSError as error:
        if error.errno not in (errno.EWOULDBLOCK, *UNSUPPORTED):
            raise
        return error.errno
