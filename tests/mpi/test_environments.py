"""Training with Gymnasium and custom environments, policies and features: learning, bit-exact resume, errors."""

import json
import os

import pytest
from jobs import (
    ROOT,
    command,
    metrics,
    newest,
    one_line,
    printed,
    refused_start,
    run,
    train,
    train_and_resume,
    train_here,
)

CARTPOLE = ["--env-id", "CartPole-v1", "--hidden", 64]


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1"])
def test_resume_is_bit_exact(tmp_path, env_id):
    flags = ["--env-id", env_id, "--num-steps", 64, "--envs-per-rank", 3, "--minibatch-size", 96]
    train_and_resume(tmp_path, 2, *flags, budgets=(800, 2000))


def test_endless_episode_is_trained_in_rounds(tmp_path):
    """A resume within the episode is bit-exact."""
    flags = ["--env-id", "own_envs:Endless", "--sync", "episode", "--envs-per-rank", 1, "--update-epochs", 2]
    whole, _ = train_and_resume(tmp_path, 2, *flags, budgets=(2 * 2048, 4 * 2048))
    assert [line["env_steps"] for line in metrics(whole)] == [2048, 2 * 2048, 3 * 2048, 4 * 2048]
    assert metrics(whole)[-1]["games"] == 0 and metrics(whole)[-1]["return_mean"] is None


def test_reproducible_on_any_number_of_ranks(tmp_path):
    """Includes the running normalisation of observations and rewards."""
    checkpoints = set()
    for ranks in (1, 4):
        cwd = tmp_path / str(ranks)
        flags = ["--env-id", "Pendulum-v1", "--envs-per-rank", 8 // ranks, "--num-steps", 32, "--minibatch-size", 64]
        train(ranks, cwd, *flags, "--reproducible", "--total-timesteps", 3000)
        checkpoints.add(newest(cwd)[1])
    assert len(checkpoints) == 1


def test_cartpole_reaches_475(tmp_path):
    """The mean return of 100 games reaches 475. Greedy games from the checkpoint reach 450."""
    flags = ["--env-id", "CartPole-v1", "--target-return", 475, "--total-timesteps", 250_000]
    line = command(2, "pg_mpi.train", "--run-dir", "run", *flags)
    result = run(line, tmp_path, code=0)
    assert json.loads((tmp_path / "run" / "DONE").read_text())["return_mean"] >= 475, result.stdout
    result = run(command(2, "pg_mpi.evaluate", "run", "--games", 20, "--greedy", "--json"), tmp_path, code=0)
    assert printed(result)["mean"] > 450, result.stdout + result.stderr


def test_unsaveable_game_restarts_after_a_resume(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for budget in (1500, 3000):
        train_here("--env-id", "own_envs:HiddenState", "--num-steps", 128, "--total-timesteps", budget)
        assert "cannot be saved: a resumed run restarts unfinished games" in capsys.readouterr().out
    assert all(line["length_mean"] == 10 for line in metrics(tmp_path)), "no game counts steps before the resume"


def test_custom_policy_trains_and_resumes(tmp_path):
    own = {"--env-id": "examples.corridor:Corridor", "--policy": "examples.linear_policy:Linear"}
    flags = [word for pair in own.items() for word in pair]
    whole, _ = train_and_resume(tmp_path, 2, *flags, "--update-epochs", 8, budgets=(6000, 12_000))
    refused = run(command(1, "pg_mpi.evaluate", "run", "--games", 2), whole)
    assert "examples.corridor:Corridor to be imported and run: give --own" in one_line(refused)
    imported = [word for name in own.values() for word in ("--own", name)]
    result = run(command(1, "pg_mpi.evaluate", "run", "--games", 2, *imported), whole, code=0)
    assert "2 full games" in result.stdout, result.stderr


def test_custom_policy_plays_atari(tmp_path, monkeypatch):
    """The observations are sparse matrices."""
    monkeypatch.chdir(tmp_path)
    flags = ["--env-id", "ALE/Pong-v5", "--policy", "own_policies:Sparse", "--sync", "steps", "--num-steps", 64]
    train_here(*flags, "--minibatch-size", 64, "--total-timesteps", 200)
    assert metrics(tmp_path)[-1]["approx_kl"] > 0


def test_custom_policy_gets_no_empty_batch(tmp_path, monkeypatch):
    """An env's two steps are in two of eight minibatches."""
    monkeypatch.chdir(tmp_path)
    flags = [*CARTPOLE, "--policy", "own_policies:NeedsRows", "--reproducible", True, "--envs-per-rank", 8]
    train_here(*flags, "--sync", "steps", "--num-steps", 2, "--minibatch-size", 2, "--total-timesteps", 64)
    assert metrics(tmp_path)[-1]["exchanges"] == 4 * 2 * 8


FEATURES = ["--sync", "steps", "--num-steps", 64, "--minibatch-size", 64, "--features"]


def test_custom_features_train_and_resume(tmp_path):
    whole, _ = train_and_resume(tmp_path, 2, *FEATURES, "own_features:Rows", budgets=(256, 640))
    line = command(1, "pg_mpi.evaluate", "run", "--games", 1)
    refused = run(line, whole, PYTHONPATH=str(ROOT))  # without a path to import it by
    assert "own_features:Rows to be imported and run: give --own" in one_line(refused)


CASES = {
    "an image": (["--env-id", "Pong-v4"], "or an Atari id such as ALE/Pong-v5"),
    "no class": (
        [*CARTPOLE, "--policy", "own_policies:Missing"],
        "names no class: give package.module:Class, or usual",
    ),
    "no policy": (
        [*CARTPOLE, "--policy", "own_policies:ListParameters"],
        "policy ListParameters: theta must be a numpy array, float32 (P,)",
    ),
    "short gradient": (
        [*CARTPOLE, "--policy", "own_policies:ShortGradient"],
        "policy ShortGradient: backward gave (14,), and theta is (15,)",
    ),
    "no gradient": ([*CARTPOLE, "--policy", "own_policies:NoGradient"], "backward gave (), and theta is (15,)"),
    "unknown features": ([*FEATURES, "blob"], "unknown --features 'blob' (did you mean blobs?)"),
    "no features": ([*FEATURES, "own_features:Missing"], "--features own_features:Missing names no class"),
    "unsorted": ([*FEATURES, "own_features:Unsorted"], "an observation must be sorted, without duplicates, and from 0"),
    "floats": ([*FEATURES, "own_features:Floats"], "an observation must be int64 (n,), not float64"),
    "growing": ([*FEATURES, "own_features:Growing"], "size changed from 420 to 421"),
    "incomplete restore": ([*FEATURES, "own_features:IncompleteRestore"], "restore(state()) gives other observations"),
    "no size": ([*FEATURES, "own_features:NoSize"], "size must be a whole number of at least 1, not None"),
    "mode": (["--env-id", "ALE/Pong-v5", "--mode", "7"], "ALE/Pong-v5 has no --mode 7: give one of 0, 1"),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_refused_before_writing(tmp_path, monkeypatch, case):
    monkeypatch.chdir(tmp_path)
    flags, line = CASES[case]
    if case in ("no class", "unsorted"):
        assert line in one_line(train(2, tmp_path, *flags, code=2))
    else:
        assert line in refused_start(1, *flags)
    assert os.listdir(tmp_path) == []


def test_error_in_the_trial_of_an_environment_is_reported(tmp_path):
    result = train(2, tmp_path, "--env-id", "own_envs:UnpicklableError", code=2)
    assert "own_envs:UnpicklableError cannot be used: LicenceError: no licence for 3 seats" in result.stderr
    assert "TypeError" not in result.stderr and os.listdir(tmp_path) == []


def test_missing_rom_is_refused(tmp_path):
    result = train(2, tmp_path, "--env-id", "ALE/Breakout-v5", code=2, ALE_ROMS_DIR=str(tmp_path))
    assert "no ROM found for breakout" in one_line(result)


@pytest.mark.parametrize(
    ("flags", "raised", "message"),
    [
        (
            [*CARTPOLE, "--policy", "own_policies:BrokenInit"],
            "no such layer",
            "own_policies:BrokenInit cannot be used: KeyError",
        ),
        ([*FEATURES, "own_features:Raising"], "no such row", "own_features:Raising: start failed: LookupError"),
    ],
)
def test_exception_in_custom_code_is_shown_once(tmp_path, flags, raised, message):
    result = train(2, tmp_path, *flags, code=2)
    assert result.stderr.count("Traceback") == 1 and raised in result.stderr
    assert message in result.stderr and os.listdir(tmp_path) == []


@pytest.mark.parametrize("flag", ["--env-id", "--policy"])
def test_import_error_is_shown_once(tmp_path, flag):
    result = train(2, tmp_path, *CARTPOLE, flag, "own_broken:Env", code=2)
    assert result.stderr.count("Traceback") == 1 and "Env = 1 / 0" in result.stderr
    assert result.stderr.count("own_broken does not import: ZeroDivisionError") == 1


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--env-id", "own_envs:LateNanReward"], "own_envs:LateNanReward gave a reward of nan"),
        (
            ["--env-id", "own_envs:LateShapeChange"],
            "own_envs:LateShapeChange gave an observation of shape (3,), not (2,)",
        ),
        (["--env-id", "own_envs:LateError"], "LookupError: no such price"),
        (
            [*FEATURES, "own_features:LateError"],
            "--features own_features:LateError: step failed: LookupError: no such row",
        ),
        ([*FEATURES, "own_features:LateOutOfRange"], "own_features:LateOutOfRange: an observation must be sorted"),
        ([*CARTPOLE, "--policy", "own_policies:LateShortGradient"], "backward gave (14,), and theta is (15,)"),
        ([*CARTPOLE, "--policy", "own_policies:NanOutputs"], "forward gave numbers that are not finite"),
    ],
)
def test_late_error_in_custom_code_ends_the_job(tmp_path, flags, message):
    """An error during training ends the job with exit code 1 and the error's message."""
    result = train(2, tmp_path, *flags, "--total-timesteps", 5000, code=1)
    assert message in result.stderr
