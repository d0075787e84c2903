"""Evaluation plays the same full games on any number of ranks, with and without MPI."""

import json
import os
from types import SimpleNamespace

import numpy as np
import own_envs
import pytest
from jobs import CARTPOLE, STEPS, command, newest, one_line, printed, run, train, train_and_resume, train_here, without

from pg_mpi import evaluate
from pg_mpi.config.errors import UsageError
from pg_mpi.evaluate import interval
from pg_mpi.files import checkpoint_file, checkpoint_folder
from pg_mpi.mpi.world import World
from pg_mpi.policy.network import SparseNetwork
from pg_mpi.run import evaluations
from pg_mpi.run.trained_policy import TrainedPolicy, find


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    flags = ["--envs-per-rank", 2, "--actions", "NOOP,RIGHT,LEFT", "--max-frames", 800, "--total-timesteps", 1]
    train_here("--run-dir", folder / "run", *STEPS, *flags)
    return folder


def evaluated_here(capsys, path, *args):
    """Evaluate in this process, on one rank; returns the result of ``--json`` and the other lines."""
    assert evaluate.main(World(), [*map(str, [path, *args]), "--json"]) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    return json.loads(last), "\n".join(lines)


def test_games_do_not_depend_on_the_number_of_ranks(trained, capsys):
    single, _ = evaluated_here(capsys, trained / "run", "--games", 5)
    distributed = printed(run(command(3, "pg_mpi.evaluate", "run", "--games", 5, "--json"), trained, code=0))
    assert single["scores"] == distributed["scores"] and distributed["ranks"] == 3
    assert {"games", "mean", "median", "ci95", "sticky", "greedy"} <= single.keys()
    assert (single["games"], single["sticky"], single["greedy"]) == (5, 0.25, False)
    assert single["mean"] == np.mean(single["scores"]) and single["ci95"][0] <= single["mean"] <= single["ci95"][1]
    other, _ = evaluated_here(capsys, trained / "run", "--games", 5, "--seed", 1)
    assert other["scores"] != single["scores"]


def test_run_folder_stores_the_last_evaluation(trained, capsys):
    def stored():
        return json.loads((trained / "run" / "evaluation.json").read_text(encoding="utf-8"))

    video = str(trained / "run" / "game.mp4")
    line = command(1, "pg_mpi.evaluate", "run", "--games", 1, "--video", video, "--json")
    result = printed(run(line, trained, code=0))
    assert stored() == result | {"checkpoint": os.path.basename(result["checkpoint"]), "video": "game.mp4"}
    evaluated_here(capsys, trained / "run", "--games", 1, "--seed", 1, "--video", trained / "game.gif")
    assert stored()["seed"] == 1 and stored()["video"] is None, "the video is outside the run folder"
    evaluated_here(capsys, trained / result["checkpoint"], "--games", 1, "--seed", 2)
    assert stored()["seed"] == 1, "a checkpoint file is not a run folder"


def test_random_policy_takes_no_action_of_the_trained_one(trained, monkeypatch, capsys):
    monkeypatch.setattr(SparseNetwork, "sample", None)
    found = trained / "run/evaluation.json"
    before = found.read_text() if found.exists() else None
    result, _ = evaluated_here(capsys, trained / "run", "--games", 2, "--random")
    assert result["random"] and (found.read_text() if found.exists() else None) == before
    with pytest.raises(TypeError):
        evaluated_here(capsys, trained / "run", "--games", 2)
    evaluated_here(capsys, trained / "run", "--games", 1, "--greedy")  # samples nothing


def test_environment_is_rendered_if_it_can_be(tmp_path, monkeypatch, capsys):
    import imageio_ffmpeg

    monkeypatch.chdir(tmp_path)
    train_here("--env-id", "own_envs:Drawn", "--num-steps", 16, "--minibatch-size", 16, "--total-timesteps", 16)
    capsys.readouterr()
    own = ["--games", 1, "--own", "own_envs:Drawn", "--video", "game.gif"]
    evaluated_here(capsys, "run", *own)
    assert next(imageio_ffmpeg.read_frames("game.gif"))["size"] == (20, 16)
    with monkeypatch.context() as stale, pytest.raises(UsageError, match="--video finds no ffmpeg"):
        stale.setenv("IMAGEIO_FFMPEG_EXE", "/nowhere/ffmpeg")
        evaluated_here(capsys, "run", *own)
    monkeypatch.delattr(own_envs.Drawn, "render")
    with pytest.raises(UsageError, match=r"own_envs:Drawn cannot be rendered: its render\(\) must return"):
        evaluated_here(capsys, "run", *own)


def test_evaluations_keep_the_best_checkpoint_and_change_no_bits(tmp_path):
    """Stopped and resumed between evaluations, on two ranks, with only one checkpoint kept."""
    flags = [*CARTPOLE, "--keep-checkpoints", 1, "--evaluate-every", 2]
    whole, _ = train_and_resume(tmp_path, 2, *flags, budgets=(3 * 1024, 8 * 1024))
    plain = tmp_path / "plain"
    train(2, plain, *flags[:-2], "--total-timesteps", 8 * 1024)
    assert newest(plain)[1] == newest(whole)[1] and not (plain / "run" / "evaluations.json").exists()

    found = json.loads((whole / "run" / "evaluations.json").read_text(encoding="utf-8"))
    scores = [each["score"] for each in found]
    assert len(set(scores)) > 1 and {each["games"] for each in found} == {20}
    best = max(found, key=lambda each: (each["score"], each["env_steps"]))
    kept = {os.path.basename(path) for path in checkpoint_folder.candidates(str(whole / "run"))}
    assert {best["checkpoint"], os.path.basename(newest(whole)[0])} <= kept and len(kept) <= 2
    played = printed(run(command(2, "pg_mpi.evaluate", "run", "--best", "--games", 2, "--json"), whole, code=0))
    assert os.path.basename(played["checkpoint"]) == best["checkpoint"]

    refused = run(command(1, "pg_mpi.evaluate", "run", "--best", "--games", 1), plain, code=2)
    assert "train with --evaluate-every" in one_line(refused)


def test_the_score_of_an_evaluation_is_that_of_its_games(trained, monkeypatch):
    monkeypatch.setattr(evaluations, "GAMES", 6)
    saved = find(str(trained / "run"))
    policy = SimpleNamespace(theta=saved.weights["theta"], norm=None)
    score = evaluations.evaluate(World(), saved.config, saved.env_spec, policy)
    player = TrainedPolicy(saved)
    expected = [player.play(evaluations.FIRST_GAME + game, saved.config.seed)[0] for game in range(6)]
    assert score == np.mean(expected)


def test_games_without_sticky_actions_differ_by_random_no_ops(tmp_path, monkeypatch, capsys):
    """Uses random weights in Boxing, where unlike in Pong the first actions matter."""
    monkeypatch.chdir(tmp_path)
    train_here(*STEPS, "--env-id", "ALE/Boxing-v5", "--max-frames", 1200, "--total-timesteps", 1)
    capsys.readouterr()
    arrays, facts = checkpoint_file.load(newest(tmp_path)[0])
    arrays["theta"] = np.random.default_rng(0).normal(size=arrays["theta"].size).astype(np.float32)
    checkpoint_file.save(str(tmp_path / "random.npz"), arrays, facts)
    result, said = evaluated_here(capsys, "random.npz", "--games", 6, "--sticky", 0, "--greedy")
    assert "up to 30 random no-ops" in said
    assert len(set(result["scores"])) > 1, "all games are the same"


def test_evaluation_runs_without_mpi(trained):
    line = without(["mpi4py.MPI"], "pg_mpi.evaluate", "run", "--games", 2, "--json")
    assert len(printed(run(line, trained, code=0))["scores"]) == 2


def test_video_needs_no_display(trained, tmp_path):
    import imageio_ffmpeg

    video = tmp_path / "game.gif"
    run(command(1, "pg_mpi.evaluate", "run", "--games", 1, "--video", video), trained, DISPLAY="", code=0)
    frames = imageio_ffmpeg.read_frames(str(video))
    assert next(frames)["size"] == (320, 420)
    pictures = {frame for _, frame in zip(range(60), frames)}
    assert len(pictures) > 30, "the video shows a still picture"


def test_interval_is_the_normal_95_percent_interval():
    scores = np.random.default_rng(0).normal(3, 5, size=100)
    low, high = interval(scores.tolist())
    half = 1.96 * scores.std() / 10
    assert low == pytest.approx(scores.mean() - half, abs=0.15)
    assert high == pytest.approx(scores.mean() + half, abs=0.15)
    assert interval([4, 4, 4]) == [4.0, 4.0]
    assert interval([4]) is None, "one game has no known spread"


def test_help_needs_no_mpi(tmp_path):
    result = run(without(["mpi4py"], "pg_mpi.evaluate", "--help"), tmp_path, code=0)
    assert "--greedy" in result.stdout
