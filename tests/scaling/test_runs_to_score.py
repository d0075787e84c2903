"""``scaling.score.seeds`` and ``games``: results of other settings, unknown run folders and signals."""

import json
import signal
import sys
import time

import pytest
from jobs import SMALL, finish, refusal, run, start

from scaling.score import games, seeds

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


MAINS = {"scaling.score.seeds": seeds.main, "scaling.score.games": games.main}


def seeds_result(target):
    command = f"python -m pg_mpi.train --preset default --seed 0 --run-dir x --resume never --target-return {target}"
    return FACTS | {"command": f"{command} --max-walltime 00:10:00", "columns": [], "curve": []}


def games_result(preset):
    facts = {"env_id": "ALE/Pong-v5", "seed": 0, "preset": preset, "ranks": 1, "wall_s": 1.0, "env_steps": 1}
    return facts | {"return_mean": 0.0, "trained": {"mean": 0.0}, "random": {"mean": -20.0}}


@pytest.mark.parametrize(
    "line, name, content, args, message",
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
def test_results_of_other_settings_or_tools_are_refused(tmp_path, monkeypatch, line, name, content, args, message):
    path = tmp_path / f"out/{name}.json"
    path.parent.mkdir()
    path.write_text(json.dumps(content))
    monkeypatch.chdir(tmp_path)
    assert message in refusal(MAINS[line[0]], *line[1:], *args) and json.loads(path.read_text()) == content


@pytest.mark.parametrize("line, name", [(SEEDS, "default-s0"), (GAMES, "Pong-v5-s0")])
def test_refused_command_keeps_an_existing_run_folder(tmp_path, monkeypatch, line, name):
    marker = tmp_path / f"runs/{name}/DONE"
    marker.parent.mkdir(parents=True)
    marker.touch()
    monkeypatch.chdir(tmp_path)
    for args, message in (
        ([], f"runs/{name} exists, but its result is not in out: move it away"),
        (["--preset", "nosuch"], "no preset or file 'nosuch'"),
        (["--", "--run-dir", "x"], "--run-dir does not apply here"),
        (["--table"], "out holds no result"),
    ):
        assert message in refusal(MAINS[line[0]], *line[1:], *args) and marker.exists()


def test_signal_ends_the_ranks_and_the_next_start_repeats_the_run(tmp_path):
    line = [sys.executable, "-m", *SEEDS, "--limit", "00:05:00", "--", *SMALL, "--max-frames", "400"]
    job = start(line, tmp_path)
    metrics = tmp_path / "runs/default-s0/metrics.jsonl"
    deadline = time.monotonic() + 60
    while not (metrics.exists() and metrics.read_text()):
        assert time.monotonic() < deadline, "no update"
        time.sleep(0.2)
    job.send_signal(signal.SIGTERM)
    stopped = finish(job, 30)
    assert stopped.returncode == 75, stopped.stderr
    interrupted = metrics.read_text()
    time.sleep(1)
    assert metrics.read_text() == interrupted and not (tmp_path / "out/default-s0.json").exists()
    repeated = run([*line, "--total-timesteps", "500"], tmp_path)
    assert repeated.returncode == 0, repeated.stderr
    assert json.loads((tmp_path / "out/default-s0.json").read_text())["starts"] == 1, (
        "the interrupted run was resumed, not repeated"
    )
    assert not (tmp_path / "runs/default-s0.begun").exists() and "default, 1 seeds" in repeated.stdout
