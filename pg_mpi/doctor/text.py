"""Format the doctor's report to fit one screen for any number of ranks."""

from typing import Any

from pg_mpi.config.errors import counted
from pg_mpi.doctor.verdict import Facts, grouped
from pg_mpi.mpi.thread_pinning import spell

MOST_HOSTS, MOST_RANKS, MOST_ALIKE = 8, 16, 3  # maximum shown: hosts, ranks, faults of one name


def text(result: dict[str, Any]) -> list[str]:
    """Return the report as lines of text, from the data that ``--json`` prints."""
    ranks = result["ranks"]
    hosts = grouped(ranks, lambda rank: rank["host"])
    mpi = ranks[0]["mpi"]
    lines = [
        f"{counted(len(ranks), 'rank')} on {counted(len(hosts), 'host')}, "
        f"started by {mpi['launcher'] or 'an unknown launcher'}; {mpi['version']}",
        f"  MPI library   {', '.join(mpi['libraries']) or 'none loaded'} ({mpi['binding']})",
    ]
    shown = list(hosts.items())[:MOST_HOSTS]
    for host, members in shown:
        lines += _host(host, members, MOST_RANKS // len(shown))
    lines += _more(len(hosts) - len(shown), "hosts")
    lines.append(_blas(ranks))
    lines.append("  versions      " + ", ".join(f"{name} {version}" for name, version in ranks[0]["versions"].items()))
    lines.append(_emulator(ranks))
    if result["allreduce_s"]:
        times = (f"{_bytes(size)} {_time(seconds)}" for size, seconds in result["allreduce_s"].items())
        lines.append(f"  Allreduce     {', '.join(times)}")
    lines += _fabrics(ranks, result["allreduce_s"])
    speed = result["memory_gb_s"]
    lines.append(
        f"  memory        {speed['alone']:.1f} GB/s for a rank alone, {speed['together']:.1f} for each of all at once"
    )
    slowest = max(ranks, key=lambda rank: rank["import_s"])
    read = slowest["imported"]
    lines.append(
        f"  start         {slowest['import_s']:.1f} s until imported, rank {slowest['rank']}, the slowest; "
        f"{read['modules']} modules from {read['from']} ({read['file_system']})"
    )
    return lines + _verdict(result["findings"])


def _host(host: str, members: list[Facts], most: int) -> list[str]:
    threads = sorted({thread for rank in members for thread in rank["threads"]})
    cores = {core for rank in members for core in rank["cores"]}
    memory = members[0]["memory_mb"]
    free = f", {memory:,} MB free" if memory is not None else ""
    places = f"{counted(len(cores), 'core')} (hardware threads {spell(threads)})"
    lines = [f"  {host}: {counted(len(members), 'rank')}, {places}{free}"]
    domains = members[0]["numa"]
    for number, domain in enumerate(domains if 1 < len(domains) <= most // 2 else ()):
        inside = [rank["rank"] for rank in members if set(rank["threads"]) <= set(domain)]
        held = f"ranks {spell(inside)}" if inside else "no rank bound to it"
        lines.append(f"    NUMA domain {number} (hardware threads {spell(domain)}): {held}")
    for rank in members[:most]:
        lines.append(f"    rank {rank['rank']}: may use {spell(rank['threads'])}, sits on {rank['sits_on']}")
    return lines + _more(len(members) - most, "ranks")


def _more(rest: int, what: str) -> list[str]:
    return [f"    ... and {rest} more {what}: see --json"] if rest > 0 else []


def _blas(ranks: list[Facts]) -> str:
    kinds: dict[str, set[int]] = {}
    for rank in ranks:
        for pool in rank["blas"]:
            kind = f"{pool['api']} {pool['version']}, {counted(pool['threads'], 'thread')}"
            kinds.setdefault(kind, set()).add(rank["rank"])
    said = (f"{kind} in {len(group)} of {len(ranks)} ranks" for kind, group in kinds.items())
    return f"  BLAS          {'; '.join(said) or 'none loaded'}"


def _emulator(ranks: list[Facts]) -> str:
    speeds = {rank["emulator"]["sps"]: rank for rank in ranks if "sps" in rank["emulator"]}
    if not speeds:
        return "  emulator      does not start"
    slow = min(speeds)
    facts = speeds[slow]["emulator"]
    total = sum(rank["emulator"].get("sps", 0) for rank in ranks)
    return (
        f"  emulator      {facts.get('rom')} (sha256 {facts.get('rom_sha256')}), {total:,} steps/s in all, "
        f"{slow:,} the slowest (rank {speeds[slow]['rank']})"
    )


def _fabrics(ranks: list[Facts], exchange: dict[int, float]) -> list[str]:
    """The fast networks of the first host, and what the largest Allreduce reached beside them."""
    found = ranks[0]["fabrics"]
    if not found:
        return []
    names = ", ".join(f"{fabric['name']} {fabric['gbit_s']:g} Gbit/s" for fabric in found)
    size = max(exchange, default=0)
    reached = f"; an Allreduce moves {8 * size / exchange[size] / 1e9:.1f} Gbit/s" if exchange else ""
    used = "in use" if all(rank["fabric_in_use"] for rank in ranks) else "not in use"
    return [f"  fabric        {names}, {used}{reached}"]


def _verdict(findings: list[dict[str, Any]]) -> list[str]:
    lines = []
    for name, group in grouped(findings, lambda finding: finding["name"]).items():
        for finding in group[:MOST_ALIKE]:
            lines.append(f"{'FAULT' if finding['fault'] else 'note'} {name}: {finding['text']}")
            lines.append(f"    cure: {finding['cure']}")
        lines += _more(len(group) - MOST_ALIKE, f"of {name}")
    faults = sum(finding["fault"] for finding in findings)
    return [*lines, f"verdict: {counted(faults, 'fault') if faults else 'sane'}"]


def _bytes(size: int) -> str:
    return f"{size} B" if size < 1e4 else f"{size / 1e3:.0f} kB" if size < 1e6 else f"{size / 1e6:.1f} MB"


def _time(seconds: float) -> str:
    return f"{1e6 * seconds:.0f} us" if seconds < 1e-3 else f"{1e3 * seconds:.1f} ms"
