"""The Python interface and the ``pg-mpi`` command do what the command line of the modules does."""

import json
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from jobs import CARTPOLE, ROOT, SMALL, command, metrics, newest, one_line, printed, run, train

from pg_mpi import __main__, api
from pg_mpi.config.errors import UsageError
from pg_mpi.files import checkpoint_file
from pg_mpi.run.trainer import Trainer

SETTINGS = {
    "env_id": "CartPole-v1",
    "sync": "steps",
    "num_steps": 128,
    "minibatch_size": 512,
    "hidden": 16,
    "update_epochs": 2,
    "total_timesteps": 2048,
    "max_walltime": None,
}
SCRIPT = """
import sys
from mpi4py import MPI
from pg_mpi import api
print(api.train({**SETTINGS, "run_dir": "run"}, MPI.COMM_WORLD))
"""
ALONE = """
from mpi4py import MPI
from pg_mpi import api
rank = MPI.COMM_WORLD.rank
api.train({**SETTINGS, "run_dir": f"{rank}/run"}, MPI.COMM_SELF if rank else None)
"""


def theta(folder):
    return checkpoint_file.load(newest(folder)[0])[0]["theta"]


@pytest.fixture(scope="module")
def by_command(tmp_path_factory):
    folder = tmp_path_factory.mktemp("command")
    train(2, folder, *CARTPOLE, *SMALL, "--total-timesteps", 2048)
    return folder


def test_training_on_ranks_equals_the_command_line(tmp_path, by_command):
    (tmp_path / "script.py").write_text(SCRIPT.replace("SETTINGS", repr(SETTINGS)))
    line = [*command(2, "x")[:-2], "-m", "mpi4py", "script.py"]
    result = run(line, tmp_path, code=0)
    assert result.stdout.splitlines().count("run") == 2
    assert theta(tmp_path).tobytes() == theta(by_command).tobytes()


def test_each_rank_of_a_job_may_train_alone(tmp_path):
    (tmp_path / "script.py").write_text(ALONE.replace("SETTINGS", repr(SETTINGS)))
    run([*command(2, "x")[:-2], "-m", "mpi4py", "script.py"], tmp_path, code=0)
    assert theta(tmp_path / "0").tobytes() == theta(tmp_path / "1").tobytes()


def test_training_in_this_process_resumes_and_leaves_signals_and_the_lock(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    before = signal.getsignal(signal.SIGTERM)
    assert api.train({**SETTINGS, "run_dir": "run"}) == "run"
    with pytest.raises(UsageError, match="gamma 0.99 there, 0.9 here") as refused:
        api.train({**SETTINGS, "run_dir": "run", "gamma": 0.9})
    assert refused.traceback, "which keeps the frames of the call, and must not keep the lock"
    assert api.train({**SETTINGS, "run_dir": "run", "total_timesteps": 4096, "reproducible": False}) == "run"
    api.train({**SETTINGS, "run_dir": "run", "checkpoint_every": 600.0})
    saved = json.loads((tmp_path / "run/config.json").read_text())["settings"]["checkpoint_every"]
    assert saved == 600 and isinstance(saved, float), "a float is a time in seconds, as in config.json"
    assert signal.getsignal(signal.SIGTERM) is before
    assert "resumed from run/checkpoints" in capsys.readouterr().out
    columns, lines = api.metrics("run"), metrics(tmp_path)
    assert columns["env_steps"].tolist() == [line["env_steps"] for line in lines]
    assert columns["phase_s.gradient"].tolist() == [line["phase_s"]["gradient"] for line in lines]
    score, steps = api.load("run").play(game=3)
    assert score == steps == api.load("run").play(game=3)[0]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1])
def test_signal_saves_a_checkpoint_and_returns(tmp_path, monkeypatch, number):
    learn = Trainer.learn

    def signalled(trainer, trajectories):
        learn(trainer, trajectories)
        if trainer.counters.update == 2:
            os.kill(os.getpid(), number)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Trainer, "learn", signalled)
    assert api.train({**SETTINGS, "total_timesteps": None, "run_dir": "run"}) == "run"
    assert checkpoint_file.load(newest(tmp_path)[0])[1]["counters"]["update"] == 2
    assert not (tmp_path / "run/DONE").exists()


def test_missing_values_are_nan(tmp_path):
    (tmp_path / "metrics.jsonl").write_text(
        '{"update": 1, "return_mean": null}\n{"update": 2, "return_mean": 3, "x": "y"}\n'
    )
    np.testing.assert_array_equal(api.metrics(str(tmp_path))["return_mean"], [np.nan, 3])
    assert api.metrics(str(tmp_path)).keys() == {"update", "return_mean"}


def test_bad_use_raises_one_line(tmp_path):
    with pytest.raises(UsageError, match="--gamma must be"):
        api.train({"gamma": 2, "run_dir": str(tmp_path / "run")})
    with pytest.raises(UsageError, match="unknown argument"):
        api.train({"gama": 0.9, "run_dir": str(tmp_path / "run")})
    with pytest.raises(UsageError, match="holds no checkpoint"):
        api.load(str(tmp_path))
    with pytest.raises(UsageError, match="no line of metrics"):
        api.metrics(str(tmp_path))
    assert not (tmp_path / "run").exists()


def test_pg_mpi_runs_the_modules(by_command):
    flags = ["evaluate", "run", "--games", "2", "--json"]
    one, two = (
        run([*map(str, start), *flags], by_command, code=0)
        for start in ([*command(2, "pg_mpi")], [Path(sys.executable).with_name("pg-mpi")])
    )
    scores = [printed(result)["scores"] for result in (one, two)]
    assert scores[0] == scores[1]


def test_pg_mpi_imports_from_the_working_directory_at_any_time(tmp_path):
    (tmp_path / "helper.py").write_text("START = 0.5\n")
    (tmp_path / "mine.py").write_text(
        "import own_envs\nclass Env(own_envs.Base):\n    def observe(self):\n        import helper\n"
        "        return [helper.START, 0]\n"
    )
    start = [Path(sys.executable).with_name("pg-mpi"), "train", "--dry-run", "--env-id", "mine:Env"]
    assert "policy: " in run(start, tmp_path, code=0).stdout


@pytest.mark.parametrize("name", __main__.COMMANDS)
def test_pg_mpi_has_help_of_each_command(name, tmp_path):
    result = run([sys.executable, "-m", "pg_mpi", name, "--help"], tmp_path)
    module = "scaling.benchmark" if name == "benchmark" else f"pg_mpi.{name}"
    assert result.returncode == 0 and f"usage: python -m {module}" in result.stdout


def test_pg_mpi_names_the_nearest_command(tmp_path):
    """On one rank."""
    wrong = run(command(3, "pg_mpi", "evalute"), tmp_path)
    assert wrong.returncode != 0
    assert one_line(wrong).startswith("unknown command 'evalute' (did you mean evaluate?)")
    assert run([sys.executable, "-m", "pg_mpi"], tmp_path).returncode == 2


def test_notebook_runs(tmp_path):
    """Its code cells, one after another, with a lower target. Plots go to a file format that needs no display."""
    notebook = json.loads((ROOT / "examples" / "notebook.ipynb").read_text(encoding="utf-8"))
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert len(cells) == 4 and not any(cell.get("outputs") for cell in notebook["cells"])
    script = "\n".join([*cells, "print(scores)"])
    assert script.count("475") == 1
    (tmp_path / "cells.py").write_text(script.replace("475", "150"))
    result = run([sys.executable, "cells.py"], tmp_path, MPLBACKEND="agg", code=0)
    assert np.mean(printed(result)) > 100


def test_wall_time_counts_from_the_call(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    begun = time.monotonic()
    api.train({"env_id": "CartPole-v1", "hidden": 4, "num_steps": 8, "total_timesteps": 64, "run_dir": "run"})
    assert 0 < api.metrics("run")["wall_s"][-1] < time.monotonic() - begun
