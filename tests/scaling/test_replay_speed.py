"""The tool that times replay buffers."""

import json
import sys

import pytest
from jobs import one_line, run

from scaling.csv_io import read_csv


def test_the_ways_are_timed(tmp_path):
    words = ["--entries", "3000", "--growth", "100,1e4", "--batch", "200", "--repeats", "2", "--out", "out", "--json"]
    result = run([sys.executable, "-m", "scaling.measure.replay_speed", *words], tmp_path)
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout.splitlines()[-1])
    assert found["naive_ms"] == found["prob_ms"] + found["draw_ms"] and found["entries"] == 3000
    assert found["ours_ms"] == found["our_write_ms"] + found["our_draw_ms"] > 0 and "torch_ms" in found
    assert found["speedup"] == found["naive_ms"] / found["ours_ms"]
    assert [(row["entries"], row["batch"]) for row in found["growth"]] == [(100, 50), (3000, 200), (10_000, 200)]
    rows, _ = read_csv(tmp_path / "out/replay.csv", "replay", 1, numbers=("entries", "naive_ms", "ours_ms"))
    assert [row["ours_ms"] for row in rows] == [row["ours_ms"] for row in found["growth"]]
    assert (tmp_path / "out/replay.png").stat().st_size > 5_000


@pytest.mark.parametrize(
    "words, said", [(["--entries", "0"], "--entries must be"), (["--growth", "10,x"], "--growth must be")]
)
def test_bad_input_is_one_line(tmp_path, words, said):
    refused = run([sys.executable, "-m", "scaling.measure.replay_speed", *words], tmp_path)
    assert refused.returncode == 2 and said in one_line(refused)
