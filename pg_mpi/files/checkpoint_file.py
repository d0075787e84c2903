"""The format of checkpoints: npz files of plain arrays, written atomically and verified before use.

A file holds named arrays, a ``facts`` array (JSON as bytes) and the SHA-256 of all of them. Pickles are refused, so
nothing in it is ever executed. It holds no wall-clock time, so equal runs write equal files.
"""

import contextlib
import errno
import hashlib
import io
import json
import math
import os
import stat
import zipfile
from collections.abc import Iterator, Mapping
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from pg_mpi.config.errors import CheckpointError, RunError, one_line, system_faults
from pg_mpi.files.atomic_file import replacing

LARGEST = 4 << 30  # bytes; larger files are refused

Arrays = dict[str, NDArray[Any]]


def save(path: str, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
    """Write a file atomically. Its folder must exist.

    Args:
        arrays: of numbers, by name.
        facts: JSON-able.

    Raises ``OSError``; ``RunError``, before anything is written, if the file would be too large to load.
    """
    content: dict[str, Any] = {**arrays, "facts": np.frombuffer(json.dumps(facts).encode(), dtype=np.uint8)}
    size = sum(array.nbytes for array in content.values())
    if size > LARGEST - (1 << 20):  # the rest is for the headers
        raise RunError(
            f"{path} would have {size / 1e9:.1f} GB, more than can be loaded again, and is not saved: use fewer envs, "
            "a smaller policy, or a run folder that all hosts see"
        )
    content["sha256"] = np.frombuffer(_digest(content), dtype=np.uint8)
    # numpy.savez writes the same, but up to numpy 2.0 leaves the archive open after an error
    with replacing(path) as file, zipfile.ZipFile(file, "w") as archive:
        for name, array in content.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


class _Reader(io.FileIO):
    """A file that remembers an error of the system, which zipfile would report as a damaged file."""

    fault: OSError | None = None

    def readall(self) -> bytes:
        with self._noting():
            return super().readall()

    def readinto(self, buffer: Any) -> int | None:
        with self._noting():
            return super().readinto(buffer)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        with self._noting(errno.EINVAL):  # to before the start of a file that is too short
            return super().seek(offset, whence)

    @contextlib.contextmanager
    def _noting(self, *harmless: int) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno not in harmless:
                self.fault = error
            raise


def load(path: str) -> tuple[Arrays, dict[str, Any]]:
    """Load the arrays and facts of a checkpoint.

    Raises ``CheckpointError`` for a file with any other content, ``SystemFault`` if it cannot be read.
    """
    with system_faults(f"{path} cannot be read"):
        about = os.stat(path)
        if not stat.S_ISREG(about.st_mode):  # opening a pipe would block
            raise CheckpointError(f"{path} is not a usable checkpoint: not a file")
        with _Reader(path) as raw:
            try:
                return _content(raw, about.st_size)
            except Exception as error:  # for damaged bytes the zip and npy parsers raise errors of any type
                if raw.fault:
                    raise raw.fault from None
                if isinstance(error, (MemoryError, SystemError)) or type(error) is RuntimeError:
                    raise MemoryError from None  # CPython raises the last two where an allocation fails
                reason = one_line(error) or type(error).__name__
    raise CheckpointError(f"{path} is not a usable checkpoint: {reason}")


def _content(raw: io.FileIO, size: int) -> tuple[Arrays, dict[str, Any]]:
    if size > LARGEST:
        raise ValueError("too large")
    with io.BufferedReader(raw) as file, zipfile.ZipFile(file) as archive:
        if sum(member.file_size for member in archive.infolist()) > size:
            raise ValueError("overlapping members")
        content = _arrays(archive)
    digest = content.pop("sha256").tobytes()
    if digest != _digest(content):
        raise ValueError("wrong checksum")
    return content, json.loads(content.pop("facts").tobytes())


def _arrays(archive: zipfile.ZipFile) -> Arrays:
    """Read all arrays of an uncompressed npz, each checked against its header."""
    content = {}
    for member in archive.infolist():
        encrypted = member.flag_bits & 1
        stored = member.compress_type == zipfile.ZIP_STORED and member.compress_size == member.file_size
        if not stored or encrypted or not member.filename.endswith(".npy"):
            raise ValueError(f"unexpected member {member.filename!r}")
        with archive.open(member) as file:
            content[member.filename[:-4]] = _array(file, member.file_size)
    return content


def _array(file: IO[bytes], size: int) -> NDArray[Any]:
    """Read the array of numbers in a npy file of ``size`` bytes, after checking its header against the size."""
    version = np.lib.format.read_magic(file)
    if version != (1, 0):
        raise ValueError("an array of an unknown format")
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
    if dtype.kind not in "fiu" or fortran:
        raise ValueError(f"an array of type {dtype}")
    count = math.prod(shape)
    if min(shape, default=0) < 0 or file.tell() + count * dtype.itemsize != size:
        raise ValueError(f"an array whose size does not match its shape {shape}")
    return np.frombuffer(file.read(), dtype=dtype, count=count).reshape(shape)


def _digest(content: Mapping[str, NDArray[Any]]) -> bytes:
    """SHA-256 of the names, types, shapes and bytes of all arrays but the checksum itself."""
    digest = hashlib.sha256()
    for name in sorted(content):
        array = np.ascontiguousarray(content[name])
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(array.data.cast("B") if array.size else b"")
    return digest.digest()
