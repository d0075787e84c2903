"""What the bandit's speed is compared with does what the bandit does."""

import json
import sys

import numpy as np
import pytest
from jobs import one_line, run

from scaling.csv_io import read_csv
from scaling.measure import bandit_speed


def test_all_ways_are_the_same_agent():
    """Each way's average reward over 12 runs is that of the book's figure, 1.3, within four deviations (0.17 each)."""
    rng = np.random.default_rng(0)
    values, scores = np.array([1.0, 2.0, 2.0]), []
    for choose in (bandit_speed.greedy, bandit_speed.converting_greedy):
        assert {int(choose(values, rng)) for _ in range(50)} == {1, 2}
    for name, play in bandit_speed.ways(lambda average: scores.append(average)).items():
        scores.clear()
        play(12 if name != "honest + f-strings" else 6)
        assert np.mean(scores) == pytest.approx(1.3, abs=0.7 if len(scores) == 12 else 1.0), name


def test_the_ways_are_timed(tmp_path):
    words = ["--runs", "40", "--loop-runs", "1", "--repeats", "1", "--ranks", "1,2", "--out", "out", "--json"]
    result = run([sys.executable, "-m", "scaling.measure.bandit_speed", *words], tmp_path)
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout.splitlines()[-1])
    assert {"story_ns", "honest_ns", "ours_ns", "config_ns", "f-strings_ns", "argmax_ns"} <= found.keys()
    assert found["speedup"] == found["honest_ns"] / found["ours_ns"] and found["ranks"] == [1, 2]
    assert found["speedup_story"] == found["story_ns"] / found["ours_ns"] and found["fit"]["law"] == "amdahl"
    rows, _ = read_csv(tmp_path / "out/bandit.csv", "bandit-speed", 1, numbers=("ns",))
    assert {row["way"]: row["ns"] for row in rows}["ours"] == found["ours_ns"]
    assert (tmp_path / "out/bandit.png").stat().st_size > 5_000


@pytest.mark.parametrize(
    "words, said",
    [
        (["--runs", "0"], "--runs must be"),
        (["--rank", "2"], "did you mean --ranks?"),
        (["--ranks", "x"], "--ranks must be"),
    ],
)
def test_bad_input_is_one_line(tmp_path, words, said):
    refused = run([sys.executable, "-m", "scaling.measure.bandit_speed", *words], tmp_path)
    assert refused.returncode == 2 and said in one_line(refused)
