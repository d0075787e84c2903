"""Seconds of each phase by rank, reduced to a size that does not depend on the number of ranks."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from pg_mpi.config.array_types import Doubles
from pg_mpi.mpi.interface import Collectives

LISTED = 64  # ranks up to which each is listed
SLOWEST = 10  # ranks that are always named
BINS = 1000  # of the histogram between the least and the most seconds
QUANTILES = np.linspace(0, 1, 101)


def summary(world: Collectives, seconds: Mapping[str, float]) -> dict[str, Any]:
    """Summarise the seconds that each rank spent in each phase, ``wait`` among them: a JSON-able dict.

    Collective: every rank must call this.

    Returns:
        slowest: the ``SLOWEST`` ranks that waited least, with ``rank`` and ``phase_s``.
        phase_s: phase → seconds of each rank, on up to ``LISTED`` ranks; otherwise
        quantiles_s: phase → the quantiles 0, 0.01, ... 1 over the ranks, within a thousandth of their range.
    """
    names, own = list(seconds), np.array(list(seconds.values()))
    wait = names.index("wait")

    def least_waiting(rows: Doubles, others: Doubles) -> Doubles:
        both = np.concatenate((rows, others))
        return both[np.lexsort((both[:, 0], both[:, 1 + wait]))][: len(rows)]

    rows = np.full((min(SLOWEST, world.size), 1 + len(names)), np.inf)
    rows[0] = world.rank, *own
    world.merge_(rows, least_waiting)
    slowest = [{"rank": int(row[0]), "phase_s": _named(names, row[1:])} for row in rows]
    if world.size <= LISTED:
        table = np.zeros((len(names), world.size))
        table[:, world.rank] = own
        return {"phase_s": _named(names, world.sum_(table)), "slowest": slowest}
    return {"quantiles_s": _named(names, quantiles(world, own)), "slowest": slowest}


def quantiles(world: Collectives, own: Doubles) -> Doubles:
    """``QUANTILES`` over the ranks of each of their numbers, (n,): float64 (n, 101).

    Collective: every rank must call this.

    Read from a histogram between minimum and maximum, so wrong by at most a ``BINS``-th of that range.
    """
    low, high = np.split(world.max_(np.concatenate((-own, own))) * np.repeat([-1.0, 1.0], len(own)), 2)
    width = np.maximum(high - low, np.finfo(float).tiny) / BINS
    places = np.minimum((own - low) / width, BINS - 1).astype(int)
    counts = np.zeros((len(own), BINS))
    counts[np.arange(len(own)), places] = 1
    wanted = QUANTILES * (world.size - 1) + 1  # numbers of ranks, from the least
    reached = [np.searchsorted(each, wanted) for each in np.cumsum(world.sum_(counts), axis=1)]
    found: Doubles = low[:, None] + (np.array(reached) + 0.5) * width[:, None]
    found[:, 0], found[:, -1] = low, high
    return found


def _named(names: list[str], values: Doubles) -> dict[str, Any]:
    return dict(zip(names, values.round(3).tolist()))
