"""Learning curves: times to a score, the reward rate, tables and figures; ``scaling.score.search`` and ``seeds``."""

import contextlib
import json
import subprocess
import sys

import matplotlib.figure
import numpy as np
import pytest
from jobs import refusal

from pg_mpi.config.errors import UsageError
from scaling.pictures import score_curves
from scaling.score import learning_curves, search, seeds
from scaling.tables import seeds_table, spread


def line(wall_s, return_mean, games=200, reward_sum=0.0, reward_count=0):
    keys = dict.fromkeys(learning_curves.COLUMNS, 0.0)
    steps = int(wall_s * 1000)
    return keys | {
        "wall_s": wall_s,
        "return_mean": return_mean,
        "games": games,
        "ranks": 2,
        "env_steps": steps,
        "frames": 4 * steps,
        "reward_sum": reward_sum,
        "reward_count": reward_count,
    }


def test_target_is_reached_after_at_least_100_games():
    lines = [line(1.0, 20.0, games=99), line(2.0, 0.0, games=100), line(3.0, 0.5), line(4.0, 18.0), line(5.0, 19.0)]
    above = learning_curves.time_to(lines, 0.0, strictly=True)
    assert above == {"wall_s": 3.0, "env_steps": 3000, "frames": 12_000, "games": 200, "core_s": 6.0}
    assert learning_curves.time_to(lines, 18.0, strictly=False)["wall_s"] == 4.0
    assert learning_curves.time_to(lines, 20.0, strictly=False) is None


def test_reward_rate_criterion_by_hand():
    """Lost points for 4 s, then won points: r = -1, then 1 - 2 * 0.95**n, which is above 0 from n = 14."""
    lines = [line(4.0, -21, reward_sum=-8, reward_count=8), line(60.0, 0, reward_sum=56, reward_count=56)]
    times, means, smoothed = learning_curves.reward_rates(lines)
    np.testing.assert_allclose(times[:3], [2, 4, 6])
    np.testing.assert_allclose(means[:4], [-1, -1, 1, 1])
    np.testing.assert_allclose(smoothed[:4], [-1, -1, -0.9, -0.805])
    assert learning_curves.time_to_rate(lines) == 4 + 2 * 14
    assert learning_curves.time_to_rate(lines[:1]) is None


def test_windows_without_a_point_are_omitted():
    lines = [line(10.0, -21), line(12.0, -21, reward_sum=-1, reward_count=2)]
    times, means, _ = learning_curves.reward_rates([*lines, line(13.0, -21)])
    assert times.tolist() == [12.0] and means.tolist() == [-0.5]


def result(seed, above_0, at_18):
    costs = [value and {"wall_s": value, "env_steps": 1, "frames": 4, "core_s": 2} for value in (above_0, at_18)]
    end = {"return_mean": 18.0, "sps_total": 7000.0, "rss_mb": 110.0}
    facts = {"preset": "fast", "seed": seed, "above_0": costs[0], "at_15": None, "at_18": costs[1]}
    facts |= {"rate_above_0_s": 30.0}
    return facts | {"end": end}


def test_table_has_medians_intervals_and_unreached_targets():
    table = seeds_table([result(0, 70.0, 300.0), result(1, 60.0, None), result(2, 90.0, None)]).splitlines()
    assert table[0] == "| | fast, 3 seeds |"
    assert table[3] == "| above 0: seconds | 70 [60, 90], IQM 73, worst 90 |"
    assert table[7] == "| a mean of 18: seconds | never [300, never], IQM never, worst never; 1 of 3 |"


def test_interquartile_mean_omits_a_quarter_on_each_side():
    assert spread([0, 10, 20, 30, 40, 50, 60, 1000], "{:g}", less=True).split(", ")[2:] == ["IQM 35", "worst 1000"]
    assert spread([3.0] * 10, "{:g}", less=False) == "3 [3, 3], IQM 3, worst 3"
    assert spread([1, 2, None], "{:g}", less=True).endswith("worst never; 2 of 3")


def test_table_marks_missing_evaluations():
    evaluated = [
        result(0, 70.0, 300.0) | {"evaluations": [{"sticky": 0.25, "greedy": True, "mean": 18.5}]},
        result(1, 60.0, 1.0),
    ]
    other = result(0, 70.0, 300.0) | {"preset": "default"}
    last = seeds_table([*evaluated, other]).splitlines()[-1]
    assert last == (
        "| 100 games, sticky 0.25, greedy | +18.5 [+18.5, +18.5], IQM +18.5, worst +18.5, 1 of 2 played | not played |"
    )


def test_figure_has_a_line_per_seed_in_the_colour_of_its_preset(tmp_path, monkeypatch):
    axes = matplotlib.figure.Figure().add_subplot()
    monkeypatch.setattr(score_curves, "axes_of", lambda path: contextlib.nullcontext(axes))
    columns = ["wall_s", "return_mean"]
    curve = [[3.0, None], [60.0, -20.5], [150.0, 18.0]]
    runs = [("default", 0), ("default", 1), ("fast", 0)]
    results = [{"preset": p, "seed": s, "ranks": 2, "columns": columns, "curve": curve} for p, s in runs]
    score_curves.draw_seeds(tmp_path / "seeds.png", results)
    lines = axes.lines[:3]
    assert all(line.get_xydata().tolist() == [[1.0, -20.5], [2.5, 18.0]] for line in lines)
    assert [line.get_color() for line in lines] == ["C0", "C0", "C1"]
    assert axes.get_legend_handles_labels()[1] == ["default", "fast"]


def test_figure_is_written_from_existing_results(tmp_path):
    columns, curve = ["wall_s", "return_mean"], [[60.0, -20.5], [150.0, 18.0]]
    (tmp_path / "fast-s0.json").write_text(
        json.dumps(result(0, 70.0, 300.0) | {"ranks": 2, "columns": columns, "curve": curve})
    )
    assert seeds.main(["--out", str(tmp_path), "--picture", str(tmp_path / "seeds.png")]) == 0
    assert (tmp_path / "seeds.png").read_bytes()[:4] == b"\x89PNG"


def test_search_runs_each_setting_once(tmp_path):
    flags = "--sync steps --num-steps 64 --minibatch-size 64 --update-epochs 1 --envs-per-rank 1 --hidden 4"
    (tmp_path / "try.json").write_text(json.dumps({"common": flags, "try": {"a": "", "b": "--gamma 0.9"}}))
    args = [str(tmp_path / "try.json"), "--seeds", "0-0", "--steps", "128", "--out", str(tmp_path / "out.jsonl")]
    first = subprocess.run(
        [sys.executable, "-m", "scaling.score.search", *args], capture_output=True, text=True, timeout=120
    )
    assert first.returncode == 0, first.stderr
    lines = (tmp_path / "out.jsonl").read_text().splitlines()
    results = sorted((json.loads(line) for line in lines), key=lambda result: result["name"])
    assert [(r["name"], r["end"]["env_steps"]) for r in results] == [("a", 128), ("b", 128)]
    assert all(r["command"].endswith(" --run-dir run") for r in results)  # no path of this machine
    again = subprocess.run(
        [sys.executable, "-m", "scaling.score.search", *args], capture_output=True, text=True, timeout=60
    )
    assert again.stdout == first.stdout and "1 of" not in again.stderr


def test_failed_run_of_a_search_loses_no_other(tmp_path, monkeypatch, capsys):
    def run_or_fail(job, core):
        if job["seed"] == 0:
            raise RuntimeError("exit code 137")
        return job

    monkeypatch.setattr(search, "_run", run_or_fail)
    jobs = [{"name": "a", "seed": seed} for seed in range(5)]
    assert search._run_all(jobs, tmp_path / "out.jsonl") == jobs[:1]
    lines = (tmp_path / "out.jsonl").read_text().splitlines()
    assert sorted(json.loads(line)["seed"] for line in lines) == [1, 2, 3, 4]
    assert "pg_mpi: error: a, seed 0: exit code 137" in capsys.readouterr().err


def test_search_refuses_an_unknown_flag_before_it_starts(tmp_path):
    (tmp_path / "try.json").write_text(json.dumps({"common": "", "try": {"a": "--gama 0.9"}}))
    with pytest.raises(UsageError, match="did you mean --gamma"):
        search.main([str(tmp_path / "try.json"), "--out", str(tmp_path / "out.jsonl")])
    assert not (tmp_path / "out.jsonl").exists()


@pytest.mark.parametrize("text", ["4-0", "a", "1-", "-1", "0-4,,7"])
def test_invalid_range_of_seeds_is_refused(text):
    for main, words in ((seeds.main, []), (search.main, ["try.json"])):
        assert "0-4" in refusal(main, *words, "--table", f"--seeds={text}")


@pytest.mark.parametrize("module", ["scaling.score.seeds", "scaling.score.search try.json"])
def test_command_refuses_with_one_line(tmp_path, module):
    command = [sys.executable, "-m", *module.split(), "--seeds", "a"]
    refused = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert refused.returncode and len(refused.stderr.splitlines()) == 1 and "0-4" in refused.stderr
