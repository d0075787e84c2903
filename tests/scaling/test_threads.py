"""Ranks and BLAS threads: real ones, in dense products."""

import json
import sys

from jobs import one_line, run


def threads(cwd, *words):
    return run([sys.executable, "-m", "scaling.measure.threads", *map(str, words)], cwd)


def test_threads(tmp_path):
    result = threads(tmp_path, "--ranks", "1,2", "--threads", "1,2", "--seconds", 2, "--out", "out", "--json")
    assert result.returncode == 0, result.stderr
    rows = json.loads(result.stdout.splitlines()[-1])["rows"]
    assert [(row["ranks"], row["threads"]) for row in rows] == [(1, 1), (1, 2), (2, 1), (2, 2)]
    for row in rows:
        assert row["threads_loaded"] <= row["threads"] and row["sps"] > 10
        assert row["inference"] > 0 and row["gradient"] > 0, "the phases of the table are there"
    assert rows[0]["threads_loaded"] == 1
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"threads.csv", "threads.png"}


def test_bad_input_is_one_line(tmp_path):
    for words, said in (
        (["--ranks", "0"], "--ranks must be"),
        (["--threads", "x"], "--threads must be"),
        (["--rank", "1"], "did you mean --ranks?"),
    ):
        refused = threads(tmp_path, *words)
        assert refused.returncode == 2 and said in one_line(refused)
