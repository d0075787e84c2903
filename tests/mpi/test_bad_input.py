"""Bad input is refused with one line from one rank and exit code 2, and no file is written."""

import os
import shutil

import pytest
from jobs import CARTPOLE, STEPS, command, newest, one_line, refusal, refused_start, run, train, train_here

from pg_mpi import evaluate
from pg_mpi.config.command_line import parse_train

DEFAULTS, _ = parse_train(CARTPOLE)
EIGHT = [*CARTPOLE, "--envs-per-rank", 8]  # on one rank, as four on each of two
CASES = {
    "unknown flag": (["--hiden", 3], "unknown argument --hiden (did you mean --hidden?): see --help"),
    "unknown game": (["--env-id", "ALE/Ping-v5"], "unknown game 'ALE/Ping-v5' (did you mean ALE/Pong-v5?)"),
    "minibatch": (
        [*STEPS, "--minibatch-size", 300],
        "--minibatch-size 300 exceeds the rollout of 256 samples (2 ranks x 1 envs x 128 steps)",
    ),
    "resume path": (["--resume", "nowhere"], "--resume nowhere: no checkpoint is there"),
    "long name": (["--run-dir", "x" * 300], "cannot be written (File name too long): give another --run-dir"),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_refused_before_writing(tmp_path, monkeypatch, case):
    monkeypatch.chdir(tmp_path)
    flags, line = CASES[case]
    if case in ("unknown flag", "resume path"):
        assert line in one_line(train(2, tmp_path, *flags, code=2))
    else:
        assert line in refused_start(2, *flags)
    assert os.listdir(tmp_path) == []


def test_run_folder_with_other_settings_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    train_here(*EIGHT, "--total-timesteps", 1)
    before = newest(tmp_path)
    line = refused_start(2, *CARTPOLE, "--total-timesteps", 9999, "--gamma", 0.9, "--learning-rate", 0.1)
    rate = f"--learning-rate {DEFAULTS.learning_rate} there, 0.1 here"
    assert f"settings (--gamma {DEFAULTS.gamma} there, 0.9 here; {rate})" in line
    assert "another --run-dir" in line
    assert newest(tmp_path) == before
    assert "run holds a run and --resume never would lose it" in refused_start(2, *CARTPOLE, "--resume", "never")


def test_damaged_checkpoints_fall_back_or_are_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    train_here(*EIGHT, "--total-timesteps", 1)
    train_here(*EIGHT, "--total-timesteps", 4000)
    path, content = newest(tmp_path)
    with open(path, "wb") as file:
        file.write(content[: len(content) // 2])
    older = newest(tmp_path)[0].replace(os.path.basename(path), sorted(os.listdir(os.path.dirname(path)))[-2])
    train_here(*EIGHT, "--total-timesteps", 4000)
    output, errors = capsys.readouterr()
    assert "pg_mpi: warning: " in errors and path.rsplit("/", 1)[1] in errors
    assert f"resumed from {os.path.relpath(older, tmp_path)}" in output
    assert newest(tmp_path) == (path, content), "the checkpoint is not written again with the same bits"
    for name in [name for name in os.listdir(tmp_path / "run" / "checkpoints") if name.endswith(".npz")]:
        shutil.copy(__file__, tmp_path / "run" / "checkpoints" / name)
    assert "no usable checkpoint in run" in refused_start(2, *CARTPOLE, "--total-timesteps", 4000)
    assert "no usable checkpoint in" in refused_start(2, *CARTPOLE, "--run-dir", "new", "--resume", __file__)
    assert not (tmp_path / "new").exists()


def test_resume_that_conflicts_with_the_run_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    train_here(*EIGHT, "--total-timesteps", 1)
    old = newest(tmp_path)[0]
    train_here(*EIGHT, "--total-timesteps", 3000)
    assert "has newer checkpoints" in refused_start(2, *CARTPOLE, "--resume", old)
    train_here(*EIGHT, "--run-dir", "other", "--resume", old, "--total-timesteps", 1)
    assert f"resumed from {old}" in capsys.readouterr().out
    train_here(*EIGHT, "--run-dir", "other", "--resume", old, "--total-timesteps", 1)
    assert "other has a checkpoint of its own: resuming from it" in capsys.readouterr().err
    assert "has 4 envs for each of 2 ranks, not 3" in refused_start(2, *CARTPOLE, "--envs-per-rank", 3)
    identity = refused_start(2, *CARTPOLE, "--run-dir", "third", "--resume", "run", "--gamma", 0.5)
    assert f"settings (--gamma {DEFAULTS.gamma} there, 0.5 here)" in identity
    shared = refused_start(3, *CARTPOLE, "--run-dir", "third", "--resume", "run")
    assert "holds 8 envs, which 3 ranks cannot share equally: use a divisor of 8" in shared
    assert not (tmp_path / "third").exists()


def test_unwritable_run_folder_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").write_text("a file")
    assert "the run folder run cannot be written" in refused_start(2, *CARTPOLE)


def test_bad_input_of_evaluate_is_refused(tmp_path, monkeypatch):
    def refused(ranks, *flags):
        return refusal(lambda argv: evaluate._prepare(argv, ranks), *flags)

    monkeypatch.chdir(tmp_path)
    result = run(command(2, "pg_mpi.evaluate", "nowhere"), tmp_path)
    assert result.returncode == 2 and "nowhere holds no checkpoint" in one_line(result)
    assert "3 ranks for 2 games: start at most 2 ranks" in refused(3, "run", "--games", 2)
    assert "--games must be a whole number of at least 1, not '0'" in refused(2, "run", "--games", 0)
    assert "--sticky must be a finite number" in refused(2, "run", "--sticky", "nan")
    assert "unknown argument --gredy (did you mean --greedy?)" in refused(2, "run", "--gredy")
    assert "--random and --greedy contradict each other" in refused(2, "run", "--random", "--greedy")
    assert "--video must end with .mp4 or .gif" in refused(2, "run", "--video", "film.avi")
    assert os.listdir(tmp_path) == []
