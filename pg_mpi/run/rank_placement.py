"""Where the ranks run: a summary whose size does not depend on their number."""

import json
from typing import Any

import numpy as np

from pg_mpi.mpi import thread_pinning
from pg_mpi.mpi.interface import Array, Collectives
from pg_mpi.mpi.launch import launch_variables

LISTED = 8  # most hosts, and most kinds of ranks, in a summary
SIZE = 1 << 16  # bytes of a summary while it is reduced
KIND = ("threads", "blas", "why_numpy")
LONGEST = 200  # characters of a value

Table = dict[str, dict[str, Any]]


def summary(world: Collectives, place: dict[str, Any]) -> dict[str, Any]:
    """Summarise ``thread_pinning.describe()`` and ``why_numpy`` (text or None) of all ranks: a JSON-able dict.

    Collective: every rank must call this. Ranks with equal facts are counted together.

    Returns:
        hosts: number of hosts.
        by_host: the first ``LISTED`` hosts in the order of their names, each with its ``ranks`` (number), ``first``
            (lowest rank) and ``cores`` (of all its ranks, such as ``0-3``).
        by_kind: likewise for each combination of BLAS ``threads``, ``blas`` and ``why_numpy``.
    """
    kind = [value[:LONGEST] if isinstance(value := place[name], str) else value for name in KIND]
    row = {"ranks": 1, "first": world.rank}
    mine: list[Table] = [{place["host"][:LONGEST]: row | {"cores": place["cores"]}}, {json.dumps(kind): row}]
    hosts, kinds = _decode(world.merge_(_encode(mine), _merge))
    first = int(world.sum_(np.array([launch_variables.is_first_on_host()], dtype=np.int64))[0])
    return {
        "hosts": max(first, LISTED) if len(hosts) == LISTED else len(hosts),
        "by_host": [{"host": name, **row} for name, row in hosts.items()],
        "by_kind": [{**dict(zip(KIND, json.loads(key))), **row} for key, row in kinds.items()],
    }


def _merge(one: Array, other: Array) -> Array:
    """Merge two encoded lists of tables; each keeps its ``LISTED`` smallest keys, so the order does not matter."""
    merged = []
    for tables in zip(_decode(one), _decode(other)):
        keys = sorted(set().union(*tables))[:LISTED]
        merged.append({key: _combined([table[key] for table in tables if key in table]) for key in keys})
    return _encode(merged)


def _combined(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The sum of the ranks, the lowest first rank and, in rows that have them, the cores of all."""
    row = {"ranks": sum(row["ranks"] for row in rows), "first": min(row["first"] for row in rows)}
    if "cores" not in rows[0]:
        return row
    return row | {
        "cores": thread_pinning.spell(sorted({core for row in rows for core in thread_pinning.numbers(row["cores"])}))
    }


def _encode(tables: list[Table]) -> Array:
    """JSON in a uint8 array of ``SIZE``, padded with blanks. Raises ``ValueError`` if it does not fit."""
    return np.frombuffer(bytearray(json.dumps(tables).encode().ljust(SIZE)), np.uint8).reshape(SIZE)


def _decode(array: Array) -> list[Table]:
    tables: list[Table] = json.loads(array.tobytes())
    return tables
