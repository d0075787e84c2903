"""Locks of files, and the lock of a run folder, so that one trainer writes into it.

The kernel locks the file ``lock`` and releases it when the process ends, so there are no stale locks. On a file system
without locks the file ``owner``, which only one process can create, takes its place. A killed trainer leaves it behind;
a start of the same job takes it over. Where locks do not hold between hosts, the newest trainer's name is in the file
``lock``, and any other stops before its next write.
"""

import atexit
import contextlib
import errno
import fcntl
import json
import os
import platform
import sys
import time
from typing import IO, Any

from pg_mpi.config.batch_systems import job_facts
from pg_mpi.config.errors import RunError, SystemFault, system_faults
from pg_mpi.files.atomic_file import exists, write_json

PATIENCE = 10.0  # seconds: the ranks of a killed job take a moment to end
UNSUPPORTED = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EINVAL)


class FolderLock:
    """The lock of ``folder``, held from the constructor to ``close`` or the end of the process.

    Raises ``SystemFault`` with exit code 75 if another process holds it, and ``OSError``.
    """

    def __init__(self, folder: str) -> None:
        self._folder, self._owner = folder, os.path.join(folder, "owner")
        self._path = os.path.join(folder, "lock")
        self._owns: dict[str, Any] | None = None
        self._file = _open(self._path)
        self._name = f"{platform.node()} process {os.getpid()}\n"
        deadline, announced = time.monotonic() + PATIENCE, False
        while (holder := self._taken()) is not None:
            if not announced and time.monotonic() > deadline - PATIENCE + 1:
                announced = True
                print(f"pg_mpi: the run folder {folder} is in use: waiting", file=sys.stderr, flush=True)
            if time.monotonic() > deadline:
                raise SystemFault(f"the run folder {folder} is in use by {holder}", may_pass=True)
            time.sleep(0.1)
        self._names = {"", self._name}  # what the file may contain unless another trainer takes the folder over
        try:
            os.ftruncate(self._file.fileno(), 0)
            os.write(self._file.fileno(), self._name.encode())
        except OSError:  # a full disk: the lock holds without its holder's name
            self._names.add(self._read_name())

    def _taken(self) -> str | None:
        """Try to take the lock: None, or its holder and what to do."""
        refused = _lock(self._file, fcntl.LOCK_EX)
        if refused in UNSUPPORTED:
            return self._take_ownership()
        if refused:
            holder = self._read_name().strip() or "another process"
            return f"{holder}: stop that trainer or give another --run-dir"
        return None

    def _read_name(self) -> str:
        return os.pread(self._file.fileno(), 4096, 0).decode(errors="replace")

    def _take_ownership(self) -> str | None:
        mine = {"host": platform.node(), "process": os.getpid(), "job": _job()}
        try:
            with open(self._owner, "x", encoding="utf-8") as file:
                json.dump(mine, file)
        except FileExistsError:
            there = self._read_owner()
            if not mine["job"] or there.get("job") != mine["job"]:
                about = " ".join(f"{key} {there.get(key)}" for key in mine)
                return f"{about}, and its file system has no locks: if that trainer has ended, remove {self._owner}"
            write_json(self._owner, mine)
        self._owns = mine
        atexit.register(self.release)
        return None

    def _read_owner(self) -> dict[str, Any]:
        with contextlib.suppress(ValueError, RecursionError, FileNotFoundError), open(self._owner, "rb") as file:
            there = json.loads(file.read(4096))
            return there if isinstance(there, dict) else {}
        return {}

    def check(self) -> None:
        """Raise ``RunError`` if the folder has been removed or replaced, or somebody else has taken it."""
        try:
            lost = not os.path.samestat(os.fstat(self._file.fileno()), os.stat(self._path))
        except FileNotFoundError:
            lost = True
        lost = lost or (self._read_owner() != self._owns if self._owns else self._read_name() not in self._names)
        if lost:
            raise RunError(f"the run folder {self._folder} was removed or taken over while in use: nothing is written")

    def close(self) -> None:
        """Give the lock back."""
        self.release()
        self._file.close()

    def release(self) -> None:
        """Remove the owner's file of this process, if there is one."""
        if self._owns and self._read_owner() == self._owns:
            with contextlib.suppress(OSError):
                os.remove(self._owner)
        self._owns = None


def is_held(folder: str) -> bool:
    """Whether a process, perhaps on another host, holds the lock of a run folder. Raises ``SystemFault``."""
    with system_faults(f"the lock of {folder} cannot be read"):
        try:
            with open(os.path.join(folder, "lock"), "rb") as file:
                refused = _lock(file, fcntl.LOCK_SH)
        except FileNotFoundError:
            return False
        return refused == errno.EWOULDBLOCK or exists(os.path.join(folder, "owner"))


def take_lock(folder: str, name: str, patience: float = 0.0) -> IO[str] | None:
    """Lock the file ``name`` of a folder until it is closed or the process ends.

    None if another process holds it for ``patience`` seconds. Raises ``SystemFault``, also on a file system without
    locks.
    """
    deadline = time.monotonic() + patience
    with system_faults(f"{folder} cannot be locked"):
        file = _open(os.path.join(folder, name))
        try:
            while (refused := _lock(file, fcntl.LOCK_EX)) == errno.EWOULDBLOCK and time.monotonic() < deadline:
                time.sleep(0.01)
        except OSError:
            file.close()
            raise
        if not refused:
            return file
        file.close()
        if refused in UNSUPPORTED:
            raise SystemFault(f"{folder} cannot be locked ({os.strerror(refused)}): use a folder with locks")
        return None


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


def _open(path: str) -> IO[str]:
    """Open a lock file to append and read; a link, whose target would be written, raises ``OSError``."""
    return open(path, "a+", encoding="utf-8", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW, 0o666))


def _job() -> str | None:
    """The batch job, or the launcher's own number of the job; None without both."""
    return ".".join(job_facts().values()) or os.environ.get("PMIX_NAMESPACE") or None
