"""Environments driven three ways by real ranks, against the same times added up by hand."""

import json
import sys

import numpy as np
import pytest
from jobs import one_line, run

from scaling.measure.lockstep.times import Times, group_of, ideal


def lockstep(cwd, *words):
    return run([sys.executable, "-m", "scaling.measure.lockstep", *map(str, words)], cwd)


def test_three_ways(tmp_path):
    words = ["--envs", 4, "--workers", 2, "--steps", 60, "--slow", 40, "--chance", 0.1, "--out", "out", "--json"]
    result = lockstep(tmp_path, *words)
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout.splitlines()[-1])
    rows = {row["way"]: row for row in found["rows"]}
    lock, free, hybrid = (rows[way] for way in ("lock-step", "independent", "hybrid"))
    for row in rows.values():
        assert row["ms_per_step"] >= row["ideal_ms_per_step"], "quicker than its steps"
        assert 0 <= row["idle"] < 1
    assert free["ideal_ms_per_step"] < hybrid["ideal_ms_per_step"] < lock["ideal_ms_per_step"]
    assert lock["idle"] > free["idle"]
    assert lock["idle"] == pytest.approx(1 - found["mean_step_ms"] / lock["ideal_ms_per_step"], abs=0.15)
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"lockstep.json", "lockstep.csv", "lockstep.png"}


def test_the_times_by_hand():
    times = np.array([[3, 3, 100], [3, 100, 3], [3, 3, 3], [100, 3, 3]]) / 1e3
    assert ideal("lock-step", times, 2) == pytest.approx(0.300)
    assert ideal("independent", times, 2) == pytest.approx(0.106)
    assert ideal("hybrid", times, 2) == pytest.approx(0.203)
    assert [group_of("hybrid", env, 5, 2) for env in range(5)] == [0, 0, 0, 1, 1]


def test_the_talks_own_case():
    """3 ms, or 100 ms for one of 8 in a fifth of the steps: 23 ms a step in lock-step."""
    times = Times(3, 100, 0.028, 0)
    drawn = np.stack([times.draw(env, 20_000, 0) for env in range(8)])
    assert 1e3 * ideal("lock-step", drawn, 2) / 20_000 == pytest.approx(3 + 97 * (1 - 0.972**8), rel=0.03)
    assert (times.draw(3, 50, 0) == drawn[3, :50]).all(), "an environment's times depend on who else there is"
    normal = Times(3, 100, 0.5, 1).draw(0, 20_000, 0)
    assert normal.mean() == pytest.approx(3e-3, rel=0.02) and normal.std() == pytest.approx(1e-3, rel=0.05)
    assert normal.min() >= 0.3e-3


@pytest.mark.parametrize(
    "words, said",
    [
        (["--envs", "0"], "--envs must be a whole number"),
        (["--workers", "9"], "--workers 9 cannot share 8 environments"),
        (["--chance", "2"], "--chance must be"),
        (["--gaussian", "0"], "--gaussian must be a finite number above 0"),
    ],
)
def test_bad_input_is_one_line(tmp_path, words, said):
    refused = lockstep(tmp_path, *words)
    assert refused.returncode == 2 and said in one_line(refused) and not refused.stdout
