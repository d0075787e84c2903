"""Training on environments of Gymnasium and on one's own: it learns, resumes bit for bit, and says what is wrong."""

import json
import os

import pytest
from jobs import ROOT, command, deterministic, metrics, newest, one_line, run, train

CARTPOLE = ["--env-id", "CartPole-v1", "--hidden", 64]
TESTS = str(ROOT / "tests")


EXACT = [("CartPole-v1", 1), ("CartPole-v1", 3), ("Pendulum-v1", 2), ("examples.corridor:Corridor", 2)]


@pytest.mark.parametrize(("env_id", "ranks"), EXACT)
def test_bit_exact(tmp_path, env_id, ranks):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    whole.mkdir(), parts.mkdir()
    flags = ["--env-id", env_id, "--num-steps", 64, "--envs-per-rank", 6 // ranks, "--minibatch-size", 96]
    train(ranks, whole, *flags, "--total-timesteps", 4000)
    for budget in (1500, 4000):
        train(ranks, parts, *flags, "--total-timesteps", budget)
    assert metrics(parts)[-1]["restarts"] >= 1
    assert os.path.basename(newest(whole)[0]) == os.path.basename(newest(parts)[0])
    assert newest(whole)[1] == newest(parts)[1]
    assert deterministic(whole) == deterministic(parts)


def test_a_game_that_never_ends_is_learned_from_in_rounds(tmp_path):
    """Also from a checkpoint in the midst of it, to the same bits."""
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    whole.mkdir(), parts.mkdir()
    flags = ["--env-id", "own_envs:Endless", "--sync", "episode", "--envs-per-rank", 1, "--update-epochs", 2]
    where = {"PYTHONPATH": f"{ROOT}:{TESTS}"}
    train(2, whole, *flags, "--total-timesteps", 4 * 2048, **where)
    for budget in (2, 4):
        train(2, parts, *flags, "--total-timesteps", budget * 2048, **where)
    assert [line["env_steps"] for line in metrics(whole)] == [2048, 2 * 2048, 3 * 2048, 4 * 2048]
    assert metrics(whole)[-1]["games"] == 0 and metrics(whole)[-1]["return_mean"] is None
    assert newest(whole)[1] == newest(parts)[1]
    assert deterministic(whole) == deterministic(parts)


def test_the_same_bits_on_any_number_of_ranks(tmp_path):
    """Scaled observations and rewards included: their sums are exact too."""
    found = set()
    for ranks in (1, 2, 4):
        cwd = tmp_path / str(ranks)
        cwd.mkdir()
        flags = ["--env-id", "Pendulum-v1", "--envs-per-rank", 4 // ranks, "--num-steps", 64, "--minibatch-size", 64]
        train(ranks, cwd, *flags, "--reproducible", "--total-timesteps", 3000)
        found.add(newest(cwd)[1])
    assert len(found) == 1


def test_cartpole_is_learned(tmp_path):
    """475 over 100 games, in fewer steps than two cores play in 20 s; then greedy games from the checkpoint."""
    flags = ["--env-id", "CartPole-v1", "--target-return", 475, "--total-timesteps", 250_000]
    line = command(2, "pg_mpi.train", "--run-dir", "run", *flags)
    result = run(line, tmp_path)
    assert result.returncode == 0, result.stderr
    assert json.loads((tmp_path / "run" / "DONE").read_text())["return_mean"] >= 475, result.stdout
    result = run(command(2, "pg_mpi.evaluate", "run", "--games", 20, "--greedy", "--json"), tmp_path)
    assert json.loads(result.stdout.splitlines()[-1])["mean"] > 450, result.stdout + result.stderr


def test_a_game_that_cannot_be_saved_starts_anew(tmp_path):
    flags = ["--env-id", "own_envs:Hiding"]
    for budget in (1500, 3000):
        result = train(2, tmp_path, *flags, "--total-timesteps", budget, PYTHONPATH=f"{ROOT}:{TESTS}")
        assert "cannot be saved: a resumed run restarts unfinished games" in result.stdout
    assert all(line["length_mean"] == 10 for line in metrics(tmp_path)), "no game is counted with steps that are gone"


@pytest.mark.parametrize("policy", ["linear_policy:Linear"])
def test_a_policy_of_ones_own_learns_and_resumes(tmp_path, policy):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    whole.mkdir(), parts.mkdir()
    flags = ["--env-id", "examples.corridor:Corridor", "--policy", f"examples.{policy}", "--update-epochs", 8]
    train(2, whole, *flags, "--total-timesteps", 12_000)
    for budget in (6000, 12_000):
        train(2, parts, *flags, "--total-timesteps", budget)
    assert newest(whole)[1] == newest(parts)[1]
    refused = run(command(1, "pg_mpi.evaluate", "run", "--games", 2), whole)
    assert "examples.corridor:Corridor to be imported and run: give --own" in one_line(refused)
    own = ["--own", "examples.corridor:Corridor", "--own", f"examples.{policy}"]
    result = run(command(1, "pg_mpi.evaluate", "run", "--games", 2, *own), whole)
    assert result.returncode == 0 and "2 full games" in result.stdout, result.stderr
    if policy.startswith("linear"):
        assert metrics(whole)[-1]["return_mean"] < 0.9, "which end is right is no linear question"


def test_a_policy_of_ones_own_plays_atari(tmp_path):
    """It gets sparse matrices there."""
    flags = ["--env-id", "ALE/Pong-v5", "--policy", "own_policies:Sparse", "--sync", "steps", "--num-steps", 64]
    train(2, tmp_path, *flags, "--minibatch-size", 64, "--total-timesteps", 1000, PYTHONPATH=f"{ROOT}:{TESTS}")
    assert metrics(tmp_path)[-1]["approx_kl"] > 0


FEATURES = ["--sync", "steps", "--num-steps", 64, "--minibatch-size", 64, "--features"]


def test_features_of_ones_own_learn_and_resume(tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    whole.mkdir(), parts.mkdir()
    path = {"PYTHONPATH": f"{ROOT}:{TESTS}"}
    train(2, whole, *FEATURES, "own_features:Rows", "--total-timesteps", 2000, **path)
    for budget in (1000, 2000):
        train(2, parts, *FEATURES, "own_features:Rows", "--total-timesteps", budget, **path)
    assert newest(whole)[1] == newest(parts)[1]
    refused = run(command(1, "pg_mpi.evaluate", "run", "--games", 1), whole, **path)
    assert "own_features:Rows to be imported and run: give --own" in one_line(refused)


CASES = {
    "unknown": (["--env-id", "CartPool-v1"], "did you mean CartPole-v1?"),
    "an image": (["--env-id", "Pong-v4"], "or an Atari id such as ALE/Pong-v5"),
    "no class": ([*CARTPOLE, "--policy", "own_policies:Nobody"], "names no class: give package.module:Class, or usual"),
    "no policy": ([*CARTPOLE, "--policy", "own_policies:Wooden"], "theta must be a numpy array, float32 (P,)"),
    "short gradient": ([*CARTPOLE, "--policy", "own_policies:Short"], "backward gave (14,), and theta is (15,)"),
    "no gradient": ([*CARTPOLE, "--policy", "own_policies:Silent"], "backward gave (), and theta is (15,)"),
    "unknown features": ([*FEATURES, "blob"], "unknown --features 'blob' (did you mean blobs?)"),
    "no features": ([*FEATURES, "own_features:Nothing"], "--features own_features:Nothing names no class"),
    "unsorted": ([*FEATURES, "own_features:Unsorted"], "an observation must be sorted, without duplicates, and from 0"),
    "floats": ([*FEATURES, "own_features:Floats"], "an observation must be int64 (n,), not float64"),
    "growing": ([*FEATURES, "own_features:Growing"], "size changed from 420 to 421"),
    "forgetful": ([*FEATURES, "own_features:Forgetful"], "restore(state()) gives other observations"),
    "no size": ([*FEATURES, "own_features:Sizeless"], "size must be a whole number of at least 1, not None"),
    "for two": (["--env-id", "ALE/Combat-v5"], "ALE/Combat-v5 is a two-player game"),
    "mode": (["--env-id", "ALE/Pong-v5", "--mode", "7"], "ALE/Pong-v5 has no --mode 7: give one of 0, 1"),
}


@pytest.mark.parametrize("case", CASES)
def test_refused_before_anything_is_written(tmp_path, case):
    flags, line = CASES[case]
    result = train(2, tmp_path, *flags, code=2, PYTHONPATH=f"{ROOT}:{TESTS}")
    assert line in one_line(result)
    assert os.listdir(tmp_path) == []


def test_an_exception_that_cannot_travel_is_told(tmp_path):
    result = train(2, tmp_path, "--env-id", "own_envs:Refusing", code=1, PYTHONPATH=f"{ROOT}:{TESTS}")
    assert "Refusal: no licence for 3 seats" in result.stderr and "TypeError" not in result.stderr


def test_a_game_without_its_rom_is_refused(tmp_path):
    result = train(2, tmp_path, "--env-id", "ALE/Breakout-v5", code=2, ALE_ROMS_DIR=str(tmp_path))
    assert "no ROM found for breakout" in one_line(result)


@pytest.mark.parametrize(
    ("flags", "raised", "says"),
    [
        (
            [*CARTPOLE, "--policy", "own_policies:Broken"],
            "no such layer",
            "own_policies:Broken cannot be used: KeyError",
        ),
        ([*FEATURES, "own_features:Raising"], "no such row", "own_features:Raising: start raised LookupError"),
    ],
)
def test_what_own_code_raises_is_shown_once(tmp_path, flags, raised, says):
    result = train(2, tmp_path, *flags, code=2, PYTHONPATH=f"{ROOT}:{TESTS}")
    assert result.stderr.count("Traceback") == 1 and raised in result.stderr
    assert says in result.stderr and os.listdir(tmp_path) == []


@pytest.mark.parametrize("flag", ["--env-id", "--policy"])
def test_what_does_not_import_is_shown_once(tmp_path, flag):
    result = train(2, tmp_path, *CARTPOLE, flag, "own_broken:Env", code=2, PYTHONPATH=f"{ROOT}:{TESTS}")
    assert result.stderr.count("Traceback") == 1 and "Env = 1 / 0" in result.stderr
    assert result.stderr.count("own_broken does not import: ZeroDivisionError") == 1


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--env-id", "own_envs:LateNan"], "own_envs:LateNan gave a reward of nan"),
        (["--env-id", "own_envs:LateShape"], "own_envs:LateShape gave an observation of shape (3,), not (2,)"),
        (["--env-id", "own_envs:Faulty"], "LookupError: no such price"),
        ([*FEATURES, "own_features:Late"], "--features own_features:Late: step raised LookupError: no such row"),
        ([*FEATURES, "own_features:LateRange"], "own_features:LateRange: an observation must be sorted"),
        ([*CARTPOLE, "--policy", "own_policies:LateShort"], "backward gave (14,), and theta is (15,)"),
        ([*CARTPOLE, "--policy", "own_policies:Careless"], "forward gave numbers that are not finite"),
    ],
)
def test_what_goes_wrong_later_ends_the_job(tmp_path, flags, says):
    """After it began, on whichever rank: exit code 1, and what it was."""
    result = train(2, tmp_path, *flags, "--total-timesteps", 5000, code=1, PYTHONPATH=f"{ROOT}:{TESTS}")
    assert says in result.stderr
