"""``scaling.measure.cost``: the cost of a flag as the ratio of the times of paired runs."""

import numpy as np
import pytest
from jobs import CARTPOLE, SMALL, printed, read_csv, refusal, tool

from pg_mpi.config.errors import RunError, UsageError
from pg_mpi.files.atomic_file import write_json
from pg_mpi.files.csv_table import write_csv
from pg_mpi.files.provenance import command_line
from scaling.cli import claim
from scaling.measure.cost import main, ratio
from scaling.measure.timed_run import check_whole

SHORT = [*SMALL, *CARTPOLE, "--repeats", 2]


def test_flag_is_measured_in_pairs_of_runs(tmp_path):
    flags = ["--of=--elastic --update-epochs 4", "--steps-per-rank", 1500, "--out", "out", "--json"]
    found = printed(tool("measure.cost", tmp_path, *flags, *SHORT))
    pairs = [row["with"] / row["without"] for row in found["rows"]]
    assert found == {"rows": found["rows"], **ratio(pairs)} and len(pairs) == 2 and min(pairs) > 0
    rows, facts = read_csv(tmp_path / "out/cost.csv", "cost", 2)
    assert [row["with"] for row in rows] == [row["with"] for row in found["rows"]]
    assert facts["command"].startswith("python -m scaling.measure.cost '--of=--elastic --update-epochs 4'")
    assert [path.name for path in tmp_path.iterdir()] == ["out"], "the run folders were not removed"


def test_incomplete_and_too_short_runs_are_refused(tmp_path):
    lines = [{"env_steps": steps, "wall_s": 600.0} for steps in (400, 800)]
    check_whole(lines, 800)
    with pytest.raises(RunError, match="800 of 801 steps in 600 s"):
        check_whole(lines, 801)
    short = tool("measure.cost", tmp_path, "--of=--trace", "--steps-per-rank", 1, *SHORT, code=1)
    assert "give more --steps-per-rank for two updates" in short.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    "text", ["# pg_mpi cost 1\n# command: python -m scaling.measure.cost --of=--trace --ranks 2\na\n", "mine", None]
)
def test_results_of_another_command_are_not_overwritten(tmp_path, monkeypatch, text):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "out/cost.csv"
    path.parent.mkdir()
    path.write_text(text) if text else path.mkdir()
    refused = refusal(main, "--of=--trace", "--steps-per-rank", "1", "--out", "out")
    assert "out/cost.csv is not a result of this same command: give another --out, or move it away" in refused
    assert path.is_dir() if text is None else path.read_text() == text


@pytest.mark.parametrize("name", ["cost.csv", "cost.json"])
def test_result_of_the_same_command_may_be_replaced(tmp_path, name):
    argv = ["--of=--preset 'a b'", "--out", "ä"]
    command = {"command": command_line("scaling.measure.cost", argv)}
    write_json(str(tmp_path / "cost.json"), command)
    write_csv(tmp_path / "cost.csv", "cost", 1, [], command)
    claim(tmp_path, name, "scaling.measure.cost", argv)
    with pytest.raises(UsageError, match="not a result of this same command"):
        claim(tmp_path, name, "scaling.measure.cost", argv[:1])


def test_interval_covers_the_ratio_in_95_percent_of_samples():
    found = ratio([1.1, 1.1, 1.1, 1.1])
    assert found["ratio"] == pytest.approx(1.1) and found["ci95"] == pytest.approx([1.1, 1.1])
    rng = np.random.default_rng(0)
    covered = [
        low < 1.05 < high
        for low, high in (ratio(1.05 * np.exp(0.1 * rng.standard_normal(5)))["ci95"] for _ in range(2000))
    ]
    assert np.mean(covered) == pytest.approx(0.95, abs=0.02)
