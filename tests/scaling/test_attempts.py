"""Runs of many seeds and games: results of other settings, runs of others, and a signal in their midst."""

import json
import signal
import sys
import time

import pytest
from jobs import SMALL, finish, one_line, run, start

FACTS = {
    "preset": "default",
    "seed": 0,
    "ranks": 1,
    "above_0": None,
    "at_15": None,
    "at_18": None,
    "rate_above_0_s": None,
    "end": {},
}
SEEDS = ["scaling.score.seeds", "--preset", "default", "--seeds", "0", "--ranks", "1", "--out", "out", "--runs", "runs"]
GAMES = [
    "scaling.score.games",
    "--games",
    "ALE/Pong-v5",
    "--seeds",
    "0",
    "--ranks",
    "1",
    "--out",
    "out",
    "--runs",
    "runs",
]


def called(cwd, line, *words):
    return run([sys.executable, "-m", *line, *words], cwd)


def seeds_result(target):
    trained = f"python -m pg_mpi.train --preset default --seed 0 --run-dir x --resume never --target-return {target}"
    return FACTS | {"command": f"{trained} --max-walltime 00:10:00", "columns": [], "curve": []}


def games_result(preset):
    facts = {"env_id": "ALE/Pong-v5", "seed": 0, "preset": preset, "ranks": 1, "wall_s": 1.0, "env_steps": 1}
    return facts | {"return_mean": 0.0, "trained": {"mean": 0.0}, "random": {"mean": -20.0}}


@pytest.mark.parametrize(
    "line, name, content, words, said",
    [
        (SEEDS, "default-s0", seeds_result(18), ["--target", "5"], "default-s0.json has flags"),
        (SEEDS, "default-s0", seeds_result(18), ["--", "--hidden", "7"], "default-s0.json has flags"),
        (SEEDS, "default-s0", {**seeds_result(18), "ranks": 2}, [], "has ranks 2, not 1: give another --out"),
        (SEEDS, "default-s0", FACTS | {"columns": [], "curve": []}, [], "default-s0.json has flags []"),
        (SEEDS, "default-s0", {"rows": []}, [], "default-s0.json is not a result of python -m scaling.score.seeds"),
        (GAMES, "Pong-v5-s0", games_result("karpathy"), [], "has preset karpathy, not default"),
        (
            GAMES,
            "Pong-v5-s0",
            {"rows": []},
            ["--table"],
            "Pong-v5-s0.json is not a result of python -m scaling.score.games",
        ),
    ],
)
def test_results_of_something_else_are_refused(tmp_path, line, name, content, words, said):
    place = tmp_path / f"out/{name}.json"
    place.parent.mkdir()
    place.write_text(json.dumps(content))
    refused = called(tmp_path, line, *words)
    assert refused.returncode == 2 and said in one_line(refused) and json.loads(place.read_text()) == content


@pytest.mark.parametrize("line, name", [(SEEDS, "default-s0"), (GAMES, "Pong-v5-s0")])
def test_the_run_of_somebody_else_stays(tmp_path, line, name):
    theirs = tmp_path / f"runs/{name}/DONE"
    theirs.parent.mkdir(parents=True)
    theirs.touch()
    for words, said in (
        ([], f"runs/{name} exists, but its result is not in out: move it away"),
        (["--preset", "nosuch"], "no preset or file 'nosuch'"),
        (["--", "--run-dir", "x"], "--run-dir does not apply here"),
        (["--table"], "out holds no result"),
    ):
        refused = called(tmp_path, line, *words)
        assert refused.returncode == 2 and said in one_line(refused) and theirs.exists()


def test_a_signal_ends_it_with_its_ranks_and_it_goes_on(tmp_path):
    line = [sys.executable, "-m", *SEEDS, "--limit", "00:05:00", "--", *SMALL, "--max-frames", "400"]
    job = start(line, tmp_path)
    metrics = tmp_path / "runs/default-s0/metrics.jsonl"
    deadline = time.monotonic() + 60
    while not (metrics.exists() and metrics.read_text()) and time.monotonic() < deadline:
        time.sleep(0.2)
    job.send_signal(signal.SIGTERM)
    ended = finish(job, 30)
    assert ended.returncode == 75, ended.stderr
    torn = metrics.read_text()
    time.sleep(1)
    assert metrics.read_text() == torn and not (tmp_path / "out/default-s0.json").exists()
    line[line.index("00:05:00")] = "00:00:20"
    done = run(line, tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "out/default-s0.json").read_text())["starts"] == 1, "the torn seconds count"
    assert not (tmp_path / "runs/default-s0.begun").exists() and "default, 1 seeds" in done.stdout
