"""``scaling.sweep``: real runs are measured and resumed, and failed points are reported."""

import json
import sys

import pytest
from jobs import CARTPOLE, SMALL, one_line, printed, read_csv, refusal, run, tool

from scaling.sweep import flags_of, main, prepare

SHORT = [*SMALL, *CARTPOLE, "--seconds", "6", "--warmup", "1.5"]


def test_sweep_measures_and_resumes(tmp_path, monkeypatch):
    tool("sweep", tmp_path, "--ranks", 1, "--out", "out", *SHORT)
    point = tmp_path / "out/ranks-000001-0.json"
    point.write_text(json.dumps(json.loads(point.read_text()) | {"sps": 123.0}))
    flags = ["--ranks", "2,1", "--out", "out", "--target", "1e9", "--json", *SHORT]
    found = printed(tool("sweep", tmp_path, *flags, PG_MPI_COMMIT="abc"))
    assert [row["ranks"] for row in found["rows"]] == [1, 2] and found["failed"] == []
    one, two = found["rows"]
    assert one["sps"] == 123, "an existing point was measured again"
    assert one["efficiency"] == 1 and two["efficiency"] == pytest.approx(two["sps"] / 246, abs=1e-3)
    for row in (one, two):
        assert sum(row["phase_share"].values()) == pytest.approx(1, abs=0.01)
        assert row["wait_fraction"] == row["phase_share"]["wait"]
        for name in ("emulator", "gradient", "wait"):
            assert row["phase_max_share"][name] >= row["phase_share"][name] - 1e-4
        assert 0 < row["cpu_util"] <= 1.1 and row["rss_mb"] > 50 and row["gflops"] > 0 and row["updates_per_s"] > 0
    assert one["wait_fraction"] < two["wait_fraction"]
    line, amdahl, usl = found["fit"]
    assert line["needed"][0]["sps"] == 1e9 and amdahl["points"] == 2 and "problem" in usl
    assert (tmp_path / "out/sweep.png").stat().st_size > 10_000
    rows, facts = read_csv(tmp_path / "out/sweep.csv", "sweep", 1)
    assert [row["sps"] for row in rows] == [123, pytest.approx(two["sps"], rel=1e-4)]
    assert facts["command"].startswith("python -m scaling.sweep") and {"cpu", "versions"} <= facts.keys()
    assert rows[1]["commit"] == "abc"
    assert not list(tmp_path.glob(".measured-*")), "the run folder of a point was not removed"
    monkeypatch.chdir(tmp_path)
    same = ["--ranks", "1,2", "--out", "out", *SHORT]
    other = refusal(main, *same, "--hidden", "32")
    assert "ranks-000001-0.json has other settings (words, settings): give another --out" in other
    point.write_text('{"sps": 1')
    assert "ranks-000001-0.json is damaged: delete it" in refusal(main, *same)


def test_failed_point_is_reported_and_others_are_measured(tmp_path):
    """With ``--mode strong`` one rank has the three envs of three ranks."""
    (tmp_path / "launcher").write_text('#!/bin/sh\n[ "$2" = 1 ] || exit 75\nshift 2\nexec "$@"\n')
    (tmp_path / "launcher").chmod(0o755)
    strong = ["--mode", "strong", "--envs-per-rank", 1, "--out", "out"]
    flags = ["--ranks", "1,3", "--launcher", tmp_path / "launcher", "--json", *SHORT]
    result = tool("sweep", tmp_path, *flags, *strong, code=1)
    assert one_line(result).startswith("3 ranks: exit code 75")
    found = printed(result)
    assert found["failed"] == [3] and [row["ranks"] for row in found["rows"]] == [1]
    point = json.loads((tmp_path / "out/ranks-000001-0.json").read_text())
    assert point["sps"] / point["updates_per_s"] == pytest.approx(3 * 128)
    args = prepare(["--ranks", "2,4", "--mode", "strong", "--envs-per-rank", "3"])
    assert [flags_of(args, ranks)[-2:] for ranks in (2, 4)] == [["--envs-per-rank", "6"], ["--envs-per-rank", "3"]]


def test_host_file_limits_the_ranks_and_an_invalid_one_is_refused(tmp_path):
    (tmp_path / "hosts").write_text("# two nodes\nn1 slots=2\nn2:3\n\n")
    assert prepare(["--hosts", str(tmp_path / "hosts")]).ranks == [1, 2, 4, 5]
    assert "hosts has room for 5 ranks, not 6" in refusal(main, "--hosts", tmp_path / "hosts", "--ranks", "6")
    (tmp_path / "hosts").write_text("n1; rm -rf /\n")
    assert "has a line 'n1; rm -rf /'" in refusal(main, "--hosts", tmp_path / "hosts", "--ranks", "1")


def test_missing_mpirun_is_refused_with_one_line(tmp_path):
    environment = {"PATH": str(tmp_path)}
    line = [sys.executable, "-c", "import sys; sys.executable = 'x/python'; from scaling import sweep, cli; "
            "sys.argv[1:] = ['--ranks', '2', '--seconds', '1']; cli.run(sweep.main)"]  # fmt: skip
    result = run(line, tmp_path, **environment)
    assert result.returncode == 2 and one_line(result).startswith("no mpirun of Open MPI")
