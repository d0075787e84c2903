"""Bad input is refused with one line from one rank and exit code 2, and no file is written."""

import os
import shutil

import pytest
from jobs import STEPS, command, newest, one_line, run, train

from pg_mpi.config.settings import TrainConfig

CASES = {
    "unknown flag": (["--hiden", 3], "unknown argument --hiden (did you mean --hidden?): see --help"),
    "unknown game": (["--env-id", "ALE/Ping-v5"], "unknown game 'ALE/Ping-v5' (did you mean ALE/Pong-v5?)"),
    "minibatch": (
        [*STEPS, "--minibatch-size", 300],
        "--minibatch-size 300 exceeds the rollout of 256 samples (2 ranks x 1 envs x 128 steps)",
    ),
    "default minibatch, given": (
        ["--sync", "steps", "--minibatch-size", 1024],
        "--minibatch-size 1024 exceeds the rollout of 256 samples (2 ranks x 1 envs x 128 steps)",
    ),
    "resume path": (["--resume", "nowhere"], "--resume nowhere: no checkpoint is there"),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_refused_before_writing(tmp_path, case):
    flags, line = CASES[case]
    result = train(2, tmp_path, *flags, code=2)
    assert line in one_line(result)
    assert os.listdir(tmp_path) == []


def test_run_folder_with_other_settings_is_refused(tmp_path):
    train(2, tmp_path, "--total-timesteps", 1)
    before = newest(tmp_path)
    result = train(2, tmp_path, "--total-timesteps", 9999, "--gamma", 0.9, "--learning-rate", 0.1, code=2)
    line = one_line(result)
    rate = f"learning_rate {TrainConfig.learning_rate} there, 0.1 here"
    assert f"settings (gamma {TrainConfig.gamma} there, 0.9 here, {rate})" in line
    assert "another --run-dir" in line
    assert newest(tmp_path) == before
    other = train(2, tmp_path, "--resume", "never", code=2)
    assert "run holds a run and --resume never would lose it" in one_line(other)


def test_damaged_checkpoints_fall_back_or_are_refused(tmp_path):
    train(2, tmp_path, "--total-timesteps", 1)
    train(2, tmp_path, "--total-timesteps", 4000)
    path, content = newest(tmp_path)
    with open(path, "wb") as file:
        file.write(content[: len(content) // 2])
    older = newest(tmp_path)[0].replace(os.path.basename(path), sorted(os.listdir(os.path.dirname(path)))[-2])
    result = train(2, tmp_path, "--total-timesteps", 4000)
    assert "pg_mpi: warning: " in result.stderr and path.rsplit("/", 1)[1] in result.stderr
    assert f"resumed from {os.path.relpath(older, tmp_path)}" in result.stdout
    assert newest(tmp_path) == (path, content), "the checkpoint is not written again with the same bits"
    for name in [name for name in os.listdir(tmp_path / "run" / "checkpoints") if name.endswith(".npz")]:
        shutil.copy(__file__, tmp_path / "run" / "checkpoints" / name)
    refused = train(2, tmp_path, "--total-timesteps", 4000, code=2)
    assert "no usable checkpoint in run" in one_line(refused)
    foreign = train(2, tmp_path, "--run-dir", "new", "--resume", __file__, code=2)
    assert "no usable checkpoint in" in one_line(foreign)
    assert not (tmp_path / "new").exists()


def test_resume_that_conflicts_with_the_run_folder(tmp_path):
    train(2, tmp_path, "--total-timesteps", 1)
    old = newest(tmp_path)[0]
    train(2, tmp_path, "--total-timesteps", 3000)
    assert "has newer checkpoints" in one_line(train(2, tmp_path, "--resume", old, code=2))
    other = train(2, tmp_path, "--run-dir", "other", "--resume", old, "--total-timesteps", 1)
    assert f"resumed from {old}" in other.stdout
    again = train(2, tmp_path, "--run-dir", "other", "--resume", old, "--total-timesteps", 1)
    assert "other has a checkpoint of its own: resuming from it" in again.stderr
    envs = train(2, tmp_path, "--envs-per-rank", 3, "--total-timesteps", 9000, code=2)
    assert "has 1 envs for each of 2 ranks, not 3" in one_line(envs)
    identity = train(2, tmp_path, "--run-dir", "third", "--resume", "run", "--gamma", 0.5, code=2)
    assert f"settings (gamma {TrainConfig.gamma} there, 0.5 here)" in one_line(identity)
    assert not (tmp_path / "third").exists()


def test_unwritable_run_folder_is_refused(tmp_path):
    (tmp_path / "run").write_text("a file")
    assert "the run folder run cannot be written" in one_line(train(2, tmp_path, code=2))


def test_bad_input_of_evaluate_is_refused(tmp_path):
    def refused(ranks, *flags):
        result = run(command(ranks, "pg_mpi.evaluate", *flags), tmp_path)
        assert result.returncode == 2, result.stderr
        return one_line(result)

    assert "nowhere holds no checkpoint" in refused(2, "nowhere")
    assert "3 ranks for 2 games: start at most 2 ranks" in refused(3, "run", "--games", 2)
    assert "--games must be a whole number of at least 1, not '0'" in refused(2, "run", "--games", 0)
    assert "--sticky must be a finite number" in refused(2, "run", "--sticky", "nan")
    assert "unknown argument --gredy (did you mean --greedy?)" in refused(2, "run", "--gredy")
    assert "--video must end with .mp4 or .gif" in refused(2, "run", "--video", "film.avi")
    assert os.listdir(tmp_path) == []
