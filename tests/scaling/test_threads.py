"""``scaling.measure.threads``: ranks and BLAS threads in real runs with dense products."""

import json
import sys

from jobs import refusal, run

from scaling.measure.threads import main


def threads(cwd, *args):
    return run([sys.executable, "-m", "scaling.measure.threads", *map(str, args)], cwd)


def test_each_combination_of_ranks_and_threads_is_measured(tmp_path):
    result = threads(tmp_path, "--ranks", "1,2", "--threads", "1,2", "--seconds", 0.5, "--out", "out", "--json")
    assert result.returncode == 0, result.stderr
    rows = json.loads(result.stdout.splitlines()[-1])["rows"]
    assert [(row["ranks"], row["threads"]) for row in rows] == [(1, 1), (1, 2), (2, 1), (2, 2)]
    for row in rows:
        assert row["threads_loaded"] <= row["threads"] and row["sps"] > 10
        assert row["inference"] > 0 and row["gradient"] > 0, "a phase of the table has no time"
    assert rows[0]["threads_loaded"] == 1
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"threads.csv", "threads.png"}


def test_bad_input_is_refused_with_one_line():
    for args, message in (
        (["--ranks", "0"], "--ranks must be"),
        (["--threads", "x"], "--threads must be"),
        (["--rank", "1"], "did you mean --ranks?"),
    ):
        assert message in refusal(main, *args)
