"""Facts about one rank: what is loaded and pinned, not what was requested."""

import hashlib
import os
import platform
import sys
import time
from importlib import metadata
from pathlib import Path
from typing import Any, cast

from pg_mpi import __version__
from pg_mpi.features import native_encoder
from pg_mpi.mpi import pinning
from pg_mpi.mpi.world import World

PACKAGES = ("numpy", "scipy", "mpi4py", "ale-py", "gymnasium")


def describe(world: World) -> dict[str, Any]:
    """Return all facts about this rank, JSON-able. Not collective."""
    threads = pinning.cores() or []
    return {
        "rank": world.rank,
        "host": platform.node(),
        "pid": os.getpid(),
        "threads": threads,
        "cores": [core_of(thread) for thread in threads],
        "host_threads": os.cpu_count(),
        "sits_on": sits_on(),
        "blas": pinning.pools(),
        "mpi": mpi(world),
        "memory_mb": memory_mb(),
        "imported": imported(),
        "versions": versions(),
        "why_numpy": native_encoder.WHY_NUMPY,
    }


def age() -> float:
    """Seconds since this process started, by the kernel's clock (Linux); 0 where unknown."""
    try:
        started = float(_stat()[19]) / os.sysconf("SC_CLK_TCK")
        return time.clock_gettime(time.CLOCK_BOOTTIME) - started
    except (OSError, AttributeError):
        return 0.0


def sits_on() -> int | None:
    """Hardware thread that this process runs on at the moment; None where unknown."""
    try:
        return int(_stat()[36])
    except OSError:
        return None


def _stat() -> list[str]:
    """Fields of /proc/self/stat from the third on. The second, a name, may hold spaces."""
    return Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()


def core_of(thread: int) -> int:
    """Core of a hardware thread, named by its first thread."""
    siblings = Path(f"/sys/devices/system/cpu/cpu{thread}/topology/thread_siblings_list")
    try:
        text = siblings.read_text(encoding="utf-8")
    except OSError:
        return thread
    return int(text.replace("-", ",").split(",")[0])


def mpi(world: World) -> dict[str, Any]:
    """Loaded MPI library, and the program that started this process."""
    return {
        "version": world.mpi_version(),
        "libraries": loaded("libmpi"),
        "binding": _binding(),
        "launcher": _launcher(),
    }


def loaded(prefix: str) -> list[str]:
    """Files loaded into this process whose names begin with ``prefix``, sorted (Linux)."""
    try:
        lines = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    paths = {line.split(maxsplit=5)[-1] for line in lines if "/" in line}
    return sorted(path for path in paths if os.path.basename(path).startswith((f"{prefix}.", f"{prefix}-")))


def _binding() -> str | None:
    """File name of mpi4py's loaded extension module, which names its ABI."""
    module = sys.modules.get("mpi4py.MPI")
    return os.path.basename(cast(str, module.__file__)) if module else None


def _launcher() -> str | None:
    """Name of the parent process: prted, hydra_pmi_proxy, slurmstepd, or a shell."""
    try:
        return Path(f"/proc/{os.getppid()}/comm").read_text(encoding="utf-8").strip()
    except OSError:
        return None


def memory_mb() -> int | None:
    """Memory available on this host or in this cgroup, in MB; None where unknown."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
        free = next(int(line.split()[1]) // 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return None
    try:
        limit, used = (int(Path("/sys/fs/cgroup", name).read_text()) for name in ("memory.max", "memory.current"))
        return min(free, (limit - used) // 2**20)
    except (OSError, ValueError):  # no limit
        return free


def imported() -> dict[str, Any]:
    """Number of modules imported from the environment and this package, and the environment's place."""
    ours = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    files = [getattr(module, "__file__", None) or "" for module in list(sys.modules.values())]
    count = sum(file.startswith((os.path.join(sys.prefix, ""), os.path.join(ours, ""))) for file in files)
    return {"modules": count, "from": sys.prefix, "file_system": file_system(sys.prefix)}


def file_system(path: str, mounts: str | Path = "/proc/self/mounts") -> str | None:
    """Type of a path's file system, such as ext4, nfs4 or lustre; None where unknown."""
    path = os.path.join(os.path.realpath(path), "")
    try:
        lines = Path(mounts).read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    kinds = {line.split()[1]: line.split()[2] for line in lines}  # of two mounts on one place the later one is visible
    above = [place for place in kinds if path.startswith(os.path.join(place, ""))]
    return kinds[max(above, key=len)] if above else None


def versions() -> dict[str, str]:
    """Versions of Python, this package and the packages that it needs."""
    found = {"python": platform.python_version(), "pg_mpi": __version__}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "missing"
    return found


def digest(path: Path) -> str:
    """First 12 hex digits of a file's sha256."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()[:12]
