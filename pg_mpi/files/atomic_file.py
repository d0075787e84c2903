"""Durable files: written under a temporary name, synced, and renamed. A reader sees the old file or the new one.

A checkpoint in parts is complete once its last file, ``step-N.npz``, is renamed: see ``checkpoint_folder``.
"""

import contextlib
import errno
import itertools
import json
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, BinaryIO

from pg_mpi.config.errors import system_faults, warn

#: Temporary names: that of the file, the process, ``tmp``.
TEMPORARY = re.compile(
    r"(config\.json|DONE|(metrics|ranks|evaluations?)\.jsonl?|(step|ranks)-[-\dof]+\.npz|report\.html)"
    r"(\.damaged(\.\d+)?)?\.\d+\.tmp"
)


def writing(path: str) -> AbstractContextManager[None]:
    """Context that raises a one-line ``SystemFault`` if ``path`` cannot be written."""
    return system_faults(
        f"{path} cannot be written", "fix that and run the same command again to resume from the newest checkpoint"
    )


def write_json(path: str, content: Any, indent: int | None = 1) -> None:
    """Write JSON atomically."""
    write_text(path, json.dumps(content, indent=indent) + "\n")


def read_list(path: str, parse: Callable[[Any], list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Return what ``parse`` makes of a JSON file; [] if it is missing or damaged. Raises ``SystemFault``."""
    damaged = contextlib.suppress(ValueError, KeyError, TypeError, OverflowError, RecursionError)
    with system_faults(f"{path} cannot be read"), unless_missing(), damaged, open(path, encoding="utf-8") as file:
        return parse(json.load(file))
    return []


def write_text(path: str, text: str) -> None:
    """Write UTF-8 text atomically. Bytes of file names that are not UTF-8 are escaped."""
    with replacing(path) as file:
        file.write(text.encode(errors="backslashreplace"))


@contextlib.contextmanager
def replacing(path: str) -> Iterator[BinaryIO]:
    """Context with a binary file that becomes ``path``: temporary, fsync, ``os.replace``, fsync of the folder."""
    temporary = f"{path}.{os.getpid()}.tmp"  # another process may write the same file
    try:
        with contextlib.suppress(FileNotFoundError):
            os.remove(temporary)  # of a killed process with the same number
        with open(temporary, "wb", opener=no_link) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        sync_folder(os.path.dirname(path) or ".")
    except BaseException:
        with contextlib.suppress(OSError):
            os.remove(temporary)
        raise


def no_link(path: str, flags: int) -> int:
    """An opener for ``open``: a link, whose target would be written, raises ``OSError``."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


def free_name(path: str) -> str:
    """``path``, or ``path.1``, ``path.2`` and so on if it exists."""
    names = itertools.chain([path], (f"{path}.{number}" for number in itertools.count(1)))
    return next(name for name in names if not exists(name))


def keep_copy(path: str, consequence: str) -> None:
    """Copy a damaged file to ``path.damaged``, or to a free name like it, before it is written again; warn."""
    copy = free_name(f"{path}.damaged")
    with open(path, "rb") as damaged, replacing(copy) as file:
        shutil.copyfileobj(damaged, file)
    warn(f"{path} is damaged: {consequence}; a copy is {copy}")


def drop_torn_line(path: str) -> None:
    """Remove the last line if it has no end, as of a killed writer; a copy is kept. No other process may write."""
    with contextlib.suppress(FileNotFoundError), open(path, "rb+") as file:
        file.seek(max(0, os.path.getsize(path) - 1))
        if file.read() not in (b"\n", b""):
            file.seek(0)
            content = file.read()
            keep_copy(path, "its last line is incomplete and is removed")
            file.truncate(content.rfind(b"\n") + 1)
            os.fsync(file.fileno())


def exists(path: str) -> bool:
    """Whether a file, folder or link is there. Raises ``SystemFault`` if the file system does not say.

    ``os.path`` answers False in that case.
    """
    return _mode(path, os.lstat) != 0


def is_folder(path: str) -> bool:
    """Whether there is a folder, or a link to one. Raises ``SystemFault`` if the file system does not say."""
    return stat.S_ISDIR(_mode(path, os.stat))


def is_file(path: str) -> bool:
    """Whether there is a regular file, or a link to one. Raises ``SystemFault`` if the file system does not say."""
    return stat.S_ISREG(_mode(path, os.stat))


def _mode(path: str, stat_call: Callable[[str], os.stat_result]) -> int:
    """The ``st_mode`` of what is there; 0 if nothing is, or can be, as for a name with a null byte."""
    with system_faults(f"{path} cannot be read"), unless_missing(), contextlib.suppress(ValueError):
        return stat_call(path).st_mode
    return 0


@contextlib.contextmanager
def unless_missing() -> Iterator[None]:
    """Context that ends without an error at a path where nothing is, or can be."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP):
            raise


def make_folder(path: str) -> None:
    """Make a folder and its parents, if they are missing. The names of those that it makes are durable."""
    path = os.path.abspath(path)
    if is_folder(path):
        return
    parent = os.path.dirname(path)
    make_folder(parent)
    try:
        os.mkdir(path)
    except FileExistsError:
        if not is_folder(path):  # else another process made it
            raise
    sync_folder(parent)


def sync_folder(folder: str) -> None:
    """Make the names in a folder durable, where the file system can sync folders."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.EACCES):  # not supported, not readable
            raise
