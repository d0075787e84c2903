"""Arrays in memory that the ranks of a host share.

Ranks must call a collective, such as ``barrier``, between one's writing and another's reading. MPI's own shared windows
are not used: where the memory does not suffice, Open MPI fails on one rank and waits on the others.
"""

import errno
import mmap
import os
import tempfile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pg_mpi.mpi.interface import Collectives

FOLDER, PREFIX = "/dev/shm", "pg_mpi_shared."
LEFT = 2**24  # bytes of each rank that stay free: an MPI fills its own segments there later


def shared_array(world: Collectives, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """Allocate an array of zeros. Collective: every rank of ``world`` must call this, all on one host.

    Rank i reserves the i-th of as many equal pieces, so that it is near the rank's core. The file has no name once all
    have mapped it, so the memory is free when they have ended, however they end.

    Raises ``OSError`` on all ranks if there is too little memory, or none to be shared.
    """
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    cuts = [size * rank // world.size for rank in (world.rank, world.rank + 1)]
    path = world.on_root(_create, size, world.size * LEFT)
    try:
        memory = world.on_every(_reserve, path, size, cuts[0], cuts[1] - cuts[0])
    finally:
        world.on_root(os.unlink, path)
    return np.frombuffer(memory, dtype).reshape(shape)


def _create(size: int, left: int) -> str:
    there = os.statvfs(FOLDER)
    if there.f_bavail * there.f_frsize < size + left:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with tempfile.NamedTemporaryFile(prefix=PREFIX, dir=FOLDER, delete=False) as file:
        file.truncate(size)
    return file.name


def _reserve(path: str, size: int, first: int, length: int) -> mmap.mmap:
    with open(path, "r+b") as file:
        if length:  # without it, a full memory would kill the rank that writes there
            os.posix_fallocate(file.fileno(), first, length)
        return mmap.mmap(file.fileno(), size)
