"""``scaling.score.search``: costs to a score, tables and figures, and real runs that are not repeated."""

import contextlib
import itertools
import json
import signal
import sys

import matplotlib.figure
import pytest
from jobs import CARTPOLE, SMALL, finish, refusal, run, start, wait_for_updates

from scaling.pictures import score_curves
from scaling.score import learning_curves, search


def line(wall_s, return_mean, games=200):
    steps = int(wall_s * 1000)
    keys = {"wall_s": wall_s, "return_mean": return_mean, "games": games, "env_steps": steps, "frames": 4 * steps}
    return dict.fromkeys(learning_curves.COLUMNS, 0.0) | keys | {"ranks": 2}


def test_target_is_reached_after_at_least_100_games():
    lines = [line(1.0, 20.0, games=99), line(2.0, 0.0, games=100), line(3.0, 0.5), line(4.0, 18.0), line(5.0, 19.0)]
    above = learning_curves.time_to(lines, 0.0, strictly=True)
    assert above == {"wall_s": 3.0, "env_steps": 3000, "frames": 12_000, "games": 200}
    assert learning_curves.time_to(lines, 18.0, strictly=False)["wall_s"] == 4.0
    assert learning_curves.time_to(lines, 20.0, strictly=False) is None


SEEDS = itertools.count()


def result(name, above_0, at_18, **facts):
    costs = [value and {"wall_s": value, "env_steps": 1000 * value} for value in (above_0, at_18)]
    facts = {"seed": next(SEEDS), "steps": 150_000} | facts
    facts |= {"name": name, "above_0": costs[0], "at_15": None, "at_18": costs[1]}
    facts |= {"columns": ["wall_s", "env_steps", "return_mean"]}
    curve = [[3.0, 3000, None], [60.0, 60_000, -20.5], [150.0, 150_000, 18.0]]
    return facts | {"curve": curve, "end": {"return_mean": 18.0, "env_steps": 150_000}}


def test_tables_have_scores_steps_and_the_seconds_of_runs_alone():
    shared = [result("a", 70.0, None), result("a", 90.0, 300.0)]
    alone = [result("a", wall, None, alone_on=2) for wall in (70.0, 60.0, 90.0, 80.0, None)]
    never = "never; 0 of 5"
    assert search.table(search.grouped(shared + alone)).splitlines() == [
        "| setting | seeds | 0.1 M |",
        "|---|---|---|",
        "| a | 2 | -3.4 |",
        "| a, 2 ranks | 5 | -3.4 |",
        "",
        "| setting | above 0, M steps | 15 | 18 |",
        "|---|---|---|---|",
        "| a | 0.07, 0.09 | -, - | -, 0.30 |",
        f"| a, 2 ranks | 0.08 [0.06, never], IQM 0.08, worst never; 4 of 5 | {never} | {never} |",
        "",
        "| setting | above 0, s | 15 | 18 |",
        "|---|---|---|---|",
        f"| a, 2 ranks | 80 [60, never], IQM 80, worst never; 4 of 5 | {never} | {never} |",
    ]


def test_runs_of_the_same_seeds_and_other_lengths_are_listed_separately():
    lengths = [(0, 5e5), (1, 5e5), (0, 2.5e6), (2, 2.5e6)]
    found = search.grouped([result("a", 70.0, None, seed=seed, steps=steps) for seed, steps in lengths])
    assert {label: len(group) for label, group in found.items()} == {"a, 0.5 M steps": 2, "a, 2.5 M steps": 2}


def test_scores_are_interpolated_and_end_with_18():
    run = result("a", 70.0, None)
    scores = [search.score_at(run, mark) for mark in (50_000, 60_000, 150_000, 160_000)]
    assert scores == [None, -20.5, 18.0, None]
    reached = result("a", 70.0, 150.0)
    assert search.score_at(reached, 160_000) == 18.0
    reached["end"]["return_mean"] = 15.0
    assert search.score_at(reached, 160_000) is None, "a run that had 18 and went on"


def test_interquartile_mean_omits_a_quarter_on_each_side():
    assert search.spread([0, 10, 20, 30, 40, 50, 60, 1000], "{:g}").split(", ")[2:] == ["IQM 35", "worst 1000"]
    assert search.spread([3.0] * 10, "{:g}") == "3 [3, 3], IQM 3, worst 3"


@pytest.mark.parametrize("facts, first, second", [({}, 0.06, 0.15), ({"alone_on": 2}, 1.0, 2.5)])
def test_figure_has_a_line_per_seed_in_the_colour_of_its_setting(tmp_path, monkeypatch, facts, first, second):
    axes = matplotlib.figure.Figure().add_subplot()
    monkeypatch.setattr(score_curves, "axes_of", lambda path: contextlib.nullcontext(axes))
    runs = [result(name, 70.0, None, **facts) for name in ("default", "default", "fast")]
    score_curves.draw_search(tmp_path / "search.png", search.grouped(runs))
    lines = axes.lines[:3]
    assert all(line.get_xydata().tolist() == [[first, -20.5], [second, 18.0]] for line in lines)
    assert [line.get_color() for line in lines] == ["C0", "C0", "C1"]
    assert [label.split(",")[0] for label in axes.get_legend_handles_labels()[1]] == ["default", "fast"]


def command(folder, *args, **settings):
    (folder / "try.json").write_text(json.dumps({"common": "", "try": {}} | settings))
    line = [sys.executable, "-m", "scaling.score.search", "try.json", "--seeds", "0", "--steps", "256"]
    return [*line, "--out", "out.jsonl", *args]


COMMON = " ".join([*SMALL, *CARTPOLE, "--envs-per-rank", "1"])


def rows(folder):
    path = folder / "out.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_each_setting_runs_once(tmp_path):
    tried = {"a": "", "b": "--gamma 0.9"}
    first = run(command(tmp_path, "--picture", "search.png", common=COMMON, **{"try": tried}), tmp_path, code=0)
    results = sorted(rows(tmp_path), key=lambda row: row["name"])
    assert [(row["name"], row["end"]["env_steps"], row["ranks"]) for row in results] == [("a", 256, 1), ("b", 256, 1)]
    assert all(row["command"].endswith(" --run-dir run") for row in results)  # no path of this machine
    again = run(command(tmp_path, common=COMMON, **{"try": tried}), tmp_path)
    assert again.stdout == first.stdout and again.stderr == ""
    assert (tmp_path / "search.png").read_bytes()[:4] == b"\x89PNG"
    whole, cut = (tmp_path / "out.jsonl").read_text().splitlines()
    (tmp_path / "out.jsonl").write_text(f"{whole}\n{cut[:99]}")  # as after a kill while it is written
    repeated = run(command(tmp_path, common=COMMON, **{"try": tried}), tmp_path, code=0)
    assert "out.jsonl.damaged" in repeated.stderr and sorted(row["name"] for row in rows(tmp_path)) == ["a", "b"]
    other = run(command(tmp_path, common=COMMON, **{"try": {"a": "--gamma 0.9"}}), tmp_path)
    assert other.returncode == 2 and "out.jsonl has a with flags" in other.stderr
    older = [row | {"settings": row["settings"] | {"minibatch_size": 1}} for row in rows(tmp_path)]
    (tmp_path / "out.jsonl").write_text("".join(json.dumps(row) + "\n" for row in older))
    other = run(command(tmp_path, common=COMMON, **{"try": tried}), tmp_path)
    assert other.returncode == 2 and "with other default settings: give another name" in other.stderr


def test_runs_on_real_ranks_stop_in_time_and_are_compared_by_seconds(tmp_path):
    flags = f"{COMMON} --max-walltime 8"
    line = command(tmp_path, "--steps", "1e8", "--ranks", "2", common=flags, **{"try": {"a": ""}})
    result = run(line, tmp_path, code=0)
    (row,) = rows(tmp_path)
    assert row["ranks"] == row["alone_on"] == 2 and 3 < row["end"]["wall_s"] < 30
    assert "| setting | above 0, s | 15 | 18 |" in result.stdout


def test_failed_run_loses_no_other(tmp_path):
    result = run(command(tmp_path, common=COMMON, **{"try": {"a": "--resume nowhere", "b": ""}}), tmp_path)
    assert result.returncode == 1 and "pg_mpi: error: a, seed 0: exit code 2" in result.stderr
    assert [row["name"] for row in rows(tmp_path)] == ["b"]


def test_signal_ends_the_runs(tmp_path):
    line = command(tmp_path, "--steps", "1e8", common=COMMON, **{"try": {"a": ""}})
    job = start(line, tmp_path, TMPDIR=str(tmp_path))
    wait_for_updates(job, tmp_path, run="*/run")
    job.send_signal(signal.SIGTERM)
    assert finish(job, 30).returncode == 75
    assert not list(tmp_path.glob("*/run")) and not (tmp_path / "out.jsonl").exists()


@pytest.mark.parametrize(
    "content, message",
    [
        ('{"common": "", "try": {"a": "--gama 0.9"}}', "did you mean --gamma"),
        ('{"common": "", "try": ["a"]}', "try.json cannot be read: give a JSON file with"),
        ('{"try": {"a": ""}}', "try.json cannot be read"),
        ("{", "try.json cannot be read"),
    ],
)
def test_bad_settings_are_refused_before_the_first_run(tmp_path, content, message):
    (tmp_path / "try.json").write_text(content)
    assert message in refusal(search.main, tmp_path / "try.json", "--out", tmp_path / "out.jsonl")
    assert [path.name for path in tmp_path.iterdir()] == ["try.json"]


@pytest.mark.parametrize("line", ['{"name": ', '{"update": 1, "env_steps": 128}', "[1]"])
def test_damaged_and_other_results_are_refused(tmp_path, line):
    (tmp_path / "out.jsonl").write_text(line)
    assert "out.jsonl is damaged" in refusal(search.main, "x", "--table", "--out", tmp_path / "out.jsonl")


def test_thinned_curve_keeps_the_last_line():
    lines = [dict.fromkeys(learning_curves.COLUMNS, 0.0) | {"wall_s": float(n)} for n in range(1, 152)]
    rows = learning_curves.thin(lines)
    assert [row[0] for row in rows][:2] == [2.0, 4.0] and rows[-1][0] == 151.0 and len(rows) == 76
