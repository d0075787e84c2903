"""Provenance of starts, and what may change bits between two."""

import pytest

from pg_mpi.files import provenance


def test_changes_between_starts_are_named():
    now = provenance.provenance(["train"], 2, "Open MPI v5", {})
    assert provenance.changes(now, now) == []
    before = {"versions": {**now["versions"], "numpy": "1.0", "cpu": "Another"}, "mpi": "MPICH 4"}
    versions = now["versions"]
    assert provenance.changes(before, now) == [
        f"cpu Another, now {versions['cpu']}",
        f"numpy 1.0, now {versions['numpy']}",
        "MPI MPICH 4, now Open MPI v5",
    ]


@pytest.mark.parametrize("before", [None, 5, {}, {"versions": 7, "mpi": []}, {"versions": {"numpy": {}}}])
def test_malformed_earlier_start_has_no_changes(before):
    assert provenance.changes(before, provenance.provenance([], 1, "x", {})) == []
