"""Remove shared memory and session folders that killed Open MPI jobs left on this host.

A killed mpirun cannot clean up, and its segments stay in memory until the host reboots. Only this user's files are
removed, if they are at least a minute old and no process maps them. Standard library only; Linux only.
"""

import contextlib
import os
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from pg_mpi.mpi.launch.kernel_files import content

OLD = 60.0  # seconds
#: Of Open MPI (host, user, job, rank), and of ``shared_memory``.
SEGMENT = re.compile(r"sm_segment\..+\.\d+\.[0-9a-f]+\.\d+|pg_mpi_shared\.\w{8}")
FOLDER = re.compile(r"(?:ompi|prted?)\.(\d+)")  # the process of mpirun
#: In containers processes are hidden or have other numbers, so folders are kept. Segments are removed there too: a
#: process that maps one keeps it.
ALL_SEEN = "pid:[4026531836]"  # PROC_PID_INIT_INO of linux/proc_ns.h


def remove(memory: str = "/dev/shm", temporary: str = "/tmp") -> None:
    """Remove stale segments and folders. Never raises ``OSError``.

    ``temporary``: by default /tmp. Hosts may share a folder that TMPDIR names, and their processes are not seen here.
    """
    with contextlib.suppress(OSError):
        segments = [path for path in _old(memory) if SEGMENT.fullmatch(path.name)]
        folders = []
        if _all_seen():
            folders = [path for path in _old(temporary) if (found := FOLDER.fullmatch(path.name)) and _dead(found[1])]
        if not segments and not folders:
            return
        mapped = "".join(map(content, Path("/proc").glob("[0-9]*/maps")))  # of this user's processes
        for path in segments:
            if f" {path}\n" not in mapped:
                with contextlib.suppress(OSError):
                    path.unlink()
        for path in folders:
            if f" {path}/" not in mapped:
                shutil.rmtree(path, ignore_errors=True)


def _all_seen() -> bool:
    """Whether every process of this user is in the host's PID namespace."""
    spaces = set()
    for entry in Path("/proc").glob("[0-9]*/ns/pid"):
        with contextlib.suppress(OSError):  # gone, or another user's
            spaces.add(os.readlink(entry))
    return spaces == {ALL_SEEN}


def _old(folder: str) -> Iterator[Path]:
    """This user's entries of a folder that were last changed more than ``OLD`` seconds ago."""
    for path in Path(folder).iterdir():
        with contextlib.suppress(OSError):  # removed meanwhile
            facts = path.lstat()
            if facts.st_uid == os.getuid() and time.time() - facts.st_mtime > OLD:
                yield path


def _dead(process: str) -> bool:
    return not os.path.exists(f"/proc/{process}")
