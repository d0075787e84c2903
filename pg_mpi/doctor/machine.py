"""Facts about this host, from the kernel's files: memory limits, NUMA domains, the allocation, fast networks."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pg_mpi.mpi.launch.kernel_files import content
from pg_mpi.mpi.thread_pinning import numbers

ROOT = Path("/")
DEVICES = ("/dev/infiniband/uverbs", "/dev/hfi1_", "/dev/cxi")  # what an MPI opens to use a fabric
NO_LIMIT = 1 << 60  # cgroup v1 writes a number near 2^63


def memory_mb(root: Path = ROOT) -> int | None:
    """Memory available to this process, in MiB: the least of the host's and of its cgroups'; None where unknown."""
    available = re.search(r"^MemAvailable: +(\d+) kB", content(root / "proc/meminfo"), re.MULTILINE)
    if not available:
        return None
    return min([int(available[1]) // 1024, *(free // 2**20 for free in _free_in_cgroups(root))])


def _free_in_cgroups(root: Path) -> Iterator[int]:
    """Bytes that each limited cgroup of this process has left, version 1 or 2. Caches that can be dropped count."""
    for line in content(root / "proc/self/cgroup").splitlines():
        number, controllers, path = [*line.split(":", 2), "", ""][:3]
        if number == "0" and not controllers:
            top, limit, usage, cache = root / "sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"
        elif "memory" in controllers.split(","):
            top = root / "sys/fs/cgroup/memory"
            limit, usage, cache = "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
        else:
            continue
        place = top / path.lstrip("/")
        for folder in (place, *place.parents):
            most, used = content(folder / limit).strip(), content(folder / usage).strip()
            if most.isdigit() and used.isdigit() and int(most) < NO_LIMIT:
                dropped = re.search(rf"^{cache} (\d+)$", content(folder / "memory.stat"), re.MULTILINE)
                yield int(most) - int(used) + (int(dropped[1]) if dropped else 0)
            if folder == top:
                break


def numa_domains(root: Path = ROOT) -> list[list[int]]:
    """The hardware threads of each NUMA domain, in the order of the domains; empty where unknown."""
    nodes = (root / "sys/devices/system/node").glob("node[0-9]*")
    numbered = sorted((int(node.name[4:]), node) for node in nodes if node.name[4:].isdigit())
    return [threads for _, node in numbered if (threads := numbers(content(node / "cpulist")))]


def allocated_threads() -> set[int]:
    """Hardware threads that this job may use on this host: those of the launcher, which binds ranks to fewer.

    Empty where unknown.
    """
    try:
        return os.sched_getaffinity(os.getppid()) | os.sched_getaffinity(0)
    except (OSError, AttributeError):
        return set()


def fabrics(root: Path = ROOT) -> list[dict[str, Any]]:
    """Fast networks of this host with a link that is up: {"name", "gbit_s"}. InfiniBand, RoCE, Omni-Path, Slingshot."""
    found = []
    for port in sorted((root / "sys/class/infiniband").glob("*/ports/*")):
        rate = re.match(r"([\d.]+) Gb/sec", content(port / "rate"))
        if rate and "ACTIVE" in content(port / "state"):
            found.append({"name": port.parents[1].name, "gbit_s": float(rate[1])})
    for device in sorted((root / "sys/class/cxi").glob("cxi*")):
        speeds = [content(net / "speed").strip() for net in sorted((device / "device/net").glob("*"))]
        rates = [int(speed) / 1000 for speed in speeds if speed.isdigit()]
        found += [{"name": device.name, "gbit_s": rate} for rate in rates if rate > 0]
    return found


def fabric_in_use() -> bool:
    """Whether this process has opened the device of a fast network. Ask after an exchange between hosts."""
    # realpath does not raise for an entry that has closed, such as the descriptor of this listing
    return any(os.path.realpath(entry).startswith(DEVICES) for entry in Path("/proc/self/fd").glob("*"))
