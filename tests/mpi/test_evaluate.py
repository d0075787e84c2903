"""Evaluation: full games, the same on any number of ranks, with and without MPI."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from jobs import ROOT, STEPS, command, newest, run, train

from pg_mpi.evaluate import interval
from pg_mpi.files import checkpoint_file

WITHOUT_MPI = """
import sys, runpy
sys.modules["mpi4py.MPI"] = None  # as where no MPI library is installed
sys.argv = ["evaluate", *sys.argv[1:]]
runpy.run_module("pg_mpi.evaluate", run_name="__main__")
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    plain = ["--features", "blobs", "--actions", "distinct", "--action-logits", "own"]
    train(2, folder, *STEPS, "--total-timesteps", 1, *plain)
    return folder


def answer(result):
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout.splitlines()[-1])


def test_same_games_on_any_number_of_ranks(trained):
    alone = answer(run(command(1, "pg_mpi.evaluate", "run", "--games", 5, "--json"), trained))
    shared = answer(run(command(3, "pg_mpi.evaluate", "run", "--games", 5, "--json"), trained))
    assert alone["scores"] == shared["scores"] and shared["ranks"] == 3
    assert {"games", "mean", "median", "ci95", "sticky", "greedy"} <= alone.keys()
    assert (alone["games"], alone["sticky"], alone["greedy"]) == (5, 0.25, False)
    assert alone["mean"] == np.mean(alone["scores"]) and alone["ci95"][0] <= alone["mean"] <= alone["ci95"][1]
    other = answer(run(command(2, "pg_mpi.evaluate", "run", "--games", 5, "--seed", 1, "--json"), trained))
    assert other["length_mean"] != alone["length_mean"]


def test_a_run_folder_keeps_its_last_evaluation(trained):
    def kept():
        return json.loads((trained / "run" / "evaluation.json").read_text(encoding="utf-8"))

    film = str(trained / "run" / "film.mp4")
    told = answer(run(command(1, "pg_mpi.evaluate", "run", "--games", 1, "--video", film, "--json"), trained))
    assert kept() == told | {"checkpoint": os.path.basename(told["checkpoint"]), "video": "film.mp4"}
    again = ["--games", 1, "--seed", 1, "--video", trained / "film.gif", "--json"]
    answer(run(command(1, "pg_mpi.evaluate", "run", *again), trained))
    assert kept()["seed"] == 1 and kept()["video"] is None, "that video is not in the folder"
    answer(run(command(1, "pg_mpi.evaluate", told["checkpoint"], "--games", 1, "--seed", 2, "--json"), trained))
    assert kept()["seed"] == 1, "a checkpoint file is not a run folder"


def test_without_sticky_actions_games_differ_by_their_start(tmp_path):
    """With random weights, in a game that depends on every action from the first one on, as Pong does not."""
    train(2, tmp_path, *STEPS, "--env-id", "ALE/Boxing-v5", "--total-timesteps", 1)
    arrays, facts = checkpoint_file.load(newest(tmp_path)[0])
    arrays["theta"] = np.random.default_rng(0).normal(size=arrays["theta"].size).astype(np.float32)
    checkpoint_file.save(str(tmp_path / "random.npz"), arrays, facts)
    flags = ["random.npz", "--games", 6, "--sticky", 0, "--greedy", "--json"]
    result = run(command(2, "pg_mpi.evaluate", *flags), tmp_path)
    assert "up to 30 random no-ops" in result.stdout
    assert len(set(answer(result)["scores"])) > 1, "every game is the same one"


def test_without_mpi(trained):
    line = [sys.executable, "-c", WITHOUT_MPI, "run", "--games", "2", "--json"]
    result = run(line, trained)
    assert len(answer(result)["scores"]) == 2


@pytest.mark.parametrize("kind", ["mp4", "gif"])
def test_video_needs_no_display(trained, tmp_path, kind):
    import imageio_ffmpeg

    film = tmp_path / f"film.{kind}"
    result = run(command(1, "pg_mpi.evaluate", "run", "--games", 1, "--video", film), trained, DISPLAY="")
    assert result.returncode == 0, result.stderr
    frames = imageio_ffmpeg.read_frames(str(film))
    assert next(frames)["size"] == (320, 420)
    pictures = {frame for _, frame in zip(range(60), frames)}
    assert len(pictures) > 30, "the picture stands still"


def test_interval():
    scores = np.random.default_rng(0).normal(3, 5, size=100)
    low, high = interval(scores.tolist())
    half = 1.96 * scores.std() / 10
    assert low == pytest.approx(scores.mean() - half, abs=0.15)
    assert high == pytest.approx(scores.mean() + half, abs=0.15)
    assert interval([4, 4, 4]) == [4.0, 4.0]


def test_help_without_mpi():
    code = "import sys; sys.modules['mpi4py'] = None; sys.argv[1:] = ['--help']; import runpy; "
    code += "runpy.run_module('pg_mpi.evaluate', run_name='__main__')"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, cwd=ROOT)
    assert result.returncode == 0 and "--greedy" in result.stdout, result.stderr
