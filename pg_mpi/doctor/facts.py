"""Facts about one rank: what is loaded and pinned, not what was requested."""

import os
import platform
import sys
import time
from pathlib import Path
from typing import Any

from pg_mpi.doctor import machine
from pg_mpi.features import native_encoder
from pg_mpi.files.provenance import versions
from pg_mpi.mpi import thread_pinning
from pg_mpi.mpi.launch import mpirun
from pg_mpi.mpi.launch.kernel_files import content
from pg_mpi.mpi.world import World


def describe(world: World) -> dict[str, Any]:
    """Return all facts about this rank, JSON-able. Not collective."""
    threads = thread_pinning.cores() or []
    return {
        "rank": world.rank,
        "host": platform.node(),
        "threads": threads,
        "cores": [core_of(thread) for thread in threads],
        "host_threads": len(machine.allocated_threads()) or os.cpu_count(),
        "cpu_quota": mpirun.cpu_quota(),
        "sits_on": sits_on(),
        "blas": thread_pinning.pools(),
        "mpi": mpi(world),
        "memory_mb": machine.memory_mb(),
        "numa": machine.numa_domains(),
        "allocated_cores": sorted({core_of(thread) for thread in machine.allocated_threads()}),
        "fabrics": machine.fabrics(),
        "imported": imported(),
        "versions": versions(),
        "why_numpy": native_encoder.WHY_NUMPY,
    }


def age() -> float:
    """Seconds since this process started, by the kernel's clock (Linux); 0 where unknown."""
    try:
        started = float(_stat()[19]) / os.sysconf("SC_CLK_TCK")
        return time.clock_gettime(time.CLOCK_BOOTTIME) - started
    except (IndexError, AttributeError):
        return 0.0


def sits_on() -> int | None:
    """Hardware thread that this process runs on at the moment; None where unknown."""
    fields = _stat()
    return int(fields[36]) if fields else None


def _stat() -> list[str]:
    """Fields of /proc/self/stat from the third on. The second, a name, may hold spaces."""
    return content("/proc/self/stat").rpartition(")")[2].split()


def core_of(thread: int) -> int:
    """Core of a hardware thread, named by its first thread."""
    siblings = thread_pinning.numbers(content(f"/sys/devices/system/cpu/cpu{thread}/topology/thread_siblings_list"))
    return siblings[0] if siblings else thread


def mpi(world: World) -> dict[str, Any]:
    """Loaded MPI library, mpi4py's module for it, and the program that started this process."""
    module = sys.modules.get("mpi4py.MPI")
    return {
        "version": world.mpi_version(),
        "libraries": _mpi_libraries(),
        "binding": os.path.basename(module.__file__ or "") if module else None,  # names the ABI
        "launcher": content(f"/proc/{os.getppid()}/comm").strip() or None,  # prted, hydra_pmi_proxy, a shell
    }


def _mpi_libraries() -> list[str]:
    """MPI libraries that are loaded into this process, sorted (Linux)."""
    paths = {line.split(maxsplit=5)[-1] for line in content("/proc/self/maps").splitlines() if "/" in line}
    return sorted(path for path in paths if os.path.basename(path).startswith(("libmpi.", "libmpi-")))


def imported() -> dict[str, Any]:
    """Number of modules imported from the environment and this package, and the environment's place."""
    ours = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    files = [getattr(module, "__file__", None) or "" for module in list(sys.modules.values())]
    count = sum(file.startswith((os.path.join(sys.prefix, ""), os.path.join(ours, ""))) for file in files)
    return {"modules": count, "from": sys.prefix, "file_system": file_system(sys.prefix)}


def file_system(path: str, mounts: str | Path = "/proc/self/mounts") -> str | None:
    """Type of a path's file system, such as ext4, nfs4 or lustre; None where unknown."""
    path = os.path.join(os.path.realpath(path), "")
    mounted = [line.split() for line in content(mounts).splitlines()]
    kinds = {words[1]: words[2] for words in mounted}  # of two mounts on one place the later one is visible
    above = [place for place in kinds if path.startswith(os.path.join(place, ""))]
    return kinds[max(above, key=len)] if above else None
