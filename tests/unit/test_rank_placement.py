"""The summary of where the ranks run is exact, in any order of reduction, and bounded."""

import numpy as np
import pytest

from pg_mpi.mpi.world import World
from pg_mpi.run import rank_placement
from scaling.model.virtual.world import Hub


def summaries(of_ranks):
    """The summary on each of some virtual ranks."""
    return Hub(len(of_ranks), lambda size: 0.0).run(lambda world: rank_placement.summary(world, of_ranks[world.rank]))


def place(host, cores, threads=1, why_numpy=None):
    return {"host": host, "cores": cores, "threads": threads, "blas": "openblas", "why_numpy": why_numpy}


def test_one_rank():
    assert rank_placement.summary(World(), place("a", "0-3")) == {
        "hosts": 1,
        "by_host": [{"host": "a", "ranks": 1, "first": 0, "cores": "0-3"}],
        "by_kind": [{"threads": 1, "blas": "openblas", "why_numpy": None, "ranks": 1, "first": 0}],
    }


def test_equal_ranks_are_counted_together():
    found = summaries([place("b", "0"), place("a", "unknown"), place("b", "1,3", 2, "no compiler"), place("b", "2")])
    assert all(each == found[0] for each in found)
    assert found[0]["by_host"] == [
        {"host": "a", "ranks": 1, "first": 1, "cores": "unknown"},
        {"host": "b", "ranks": 3, "first": 0, "cores": "0-3"},
    ]
    assert found[0]["by_kind"] == [
        {"threads": 1, "blas": "openblas", "why_numpy": None, "ranks": 3, "first": 0},
        {"threads": 2, "blas": "openblas", "why_numpy": "no compiler", "ranks": 1, "first": 2},
    ]


@pytest.mark.parametrize("spread", ["by node", "by slot"])
def test_listed_hosts_are_complete_however_ranks_are_placed(spread):
    hosts = [f"n{number:02d}" for number in range(20)]
    named = hosts * 3 if spread == "by node" else np.repeat(hosts, 3).tolist()
    found = summaries([place(host, "0") for host in named])[0]
    assert [row["host"] for row in found["by_host"]] == hosts[: rank_placement.LISTED]
    assert [row["ranks"] for row in found["by_host"]] == [3] * rank_placement.LISTED
    assert [row["first"] for row in found["by_host"]] == [named.index(host) for host in hosts[: rank_placement.LISTED]]


def test_long_values_fit():
    names = [f"{number}" + "x" * 5000 for number in range(12)]
    found = summaries([place(name, "0-127", number, name) for number, name in enumerate(names)])[0]
    assert len(found["by_host"]) == len(found["by_kind"]) == rank_placement.LISTED
