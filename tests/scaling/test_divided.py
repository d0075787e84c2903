"""``scaling.measure.divided``: real runs with whole and with divided optimizer steps."""

import json
import sys

import pytest
from jobs import SMALL, STEPS, run

from pg_mpi.run import dividing
from scaling.measure.divided import WAYS


@pytest.mark.parametrize("way, ranks", [("whole", 1), ("divided", 2)])
def test_way_sets_the_number_of_ranks_that_divide_a_step(monkeypatch, way, ranks):
    monkeypatch.setattr(dividing, "FEWEST", WAYS[way])
    assert dividing.dividing(2, 2) == ranks


def test_both_ways_are_measured_on_each_number_of_ranks(tmp_path):
    flags = ["--ranks", "1,2", "--seconds", "4", "--warmup", "0.5", "--repeats", "1", "--env-id", "CartPole-v1"]
    command = [sys.executable, "-m", "scaling.measure.divided", *flags, *SMALL, *STEPS, "--out", "out", "--json"]
    result = run(command, tmp_path)
    assert result.returncode == 0, result.stderr
    rows = json.loads(result.stdout.splitlines()[-1])["rows"]
    assert [(row["ranks"], row["way"]) for row in rows] == [(1, "whole"), (2, "whole"), (2, "divided")]
    assert all(min(row["sps"], row["optimizer_ms"], row["gradient_ms"]) > 0 for row in rows)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["divided.csv"]
