"""A resumed run equals an uninterrupted one: the bits of the checkpoint and all deterministic metrics."""

import json
import math
import os
import re
import signal
import sys
import time

import pytest
from jobs import (
    CARTPOLE,
    SMALL,
    STEPS,
    command,
    deterministic,
    end,
    finish,
    metrics,
    newest,
    saved_states,
    start,
    train,
    train_and_resume,
    train_here,
    train_in_turn,
    wait_for_updates,
)

from pg_mpi.features import native_encoder
from pg_mpi.files import checkpoint_file

GAMES = ["--max-frames", 1200]  # at most 300 steps each
ROLLOUTS = [*STEPS, "--num-steps", "64", "--envs-per-rank", "2"]


def test_resume_is_bit_exact(tmp_path):
    train_and_resume(tmp_path, 2, *GAMES, "--anneal-timesteps", 20_000, budgets=(500, 1400))


@pytest.mark.skipif(native_encoder.LIBRARY is None, reason="encoder.c is not compiled")
def test_numpy_encoder_resumes_a_run_of_encoder_c(tmp_path):
    """As when a job is requeued on a machine without a compiler: the bits are equal, and the log names the encoder."""
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    native_log = train_in_turn(3, tmp_path, [("whole", 1200), ("resumed", 500)], *ROLLOUTS).stdout
    numpy_log = train(3, resumed, *ROLLOUTS, "--total-timesteps", 1200, PG_MPI_NUMPY="1").stdout
    assert newest(whole)[1] == newest(resumed)[1]
    assert deterministic(whole) == deterministic(resumed)
    assert "features by numpy" in numpy_log and "features by numpy" not in native_log


def test_pong_preset_resume_is_bit_exact(tmp_path):
    flags = ["--preset", "pong", "--num-steps", 64, "--minibatch-size", 64, *GAMES]
    whole, _ = train_and_resume(tmp_path, 2, *flags, budgets=(600, 1800))
    settings = json.loads((whole / "run/config.json").read_text())["settings"]
    assert settings["features"] == "pg_mpi.features.pong:Courses" and "NOOP" in settings["actions"]


def test_karpathy_resume_is_bit_exact(tmp_path):
    train_and_resume(tmp_path, 2, "--preset", "karpathy", *GAMES, budgets=(600, 1800))


def test_exploration_resume_is_bit_exact(tmp_path, monkeypatch):
    """These games give no reward: each has a preference, and the policy stays close to uniform."""
    monkeypatch.chdir(tmp_path)
    flags = ["--env-id", "ALE/Freeway-v5", "--max-frames", 200, "--envs-per-rank", 2]
    train_here(*flags, "--run-dir", "whole", "--total-timesteps", 700)
    train_here(*flags, "--total-timesteps", 300)
    assert all(facts["preference"] for _, facts in saved_states(newest(tmp_path)[0]).values())
    train_here(*flags, "--total-timesteps", 700)
    assert newest(tmp_path)[1] == newest(tmp_path, "whole")[1]
    assert deterministic(tmp_path) == deterministic(tmp_path, "whole")
    last = metrics(tmp_path)[-1]
    assert last["reward_count"] == 0 and last["entropy"] > 0.99 * math.log(3) and last["restarts"] == 1


def test_killed_run_resumes_bit_exact(tmp_path):
    """mpirun is killed three times during training. No saved update is lost, and the last checkpoint is the same."""
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    flags = [*ROLLOUTS, "--checkpoint-every", "3", "--total-timesteps", "9000"]
    train(2, whole, *flags)
    line = command(2, "pg_mpi.train", "--run-dir", "run", "--hidden", 16, "--update-epochs", 2, *flags)
    saved = 0
    for more in (5, 6, 8):
        before = len(metrics(killed)) if (killed / "run" / "metrics.jsonl").exists() else 0
        process = start(line, killed)
        wait_for_updates(process, killed, before + more)
        process.kill()
        finish(process)
        _, facts = checkpoint_file.load(newest(killed)[0])
        assert facts["counters"]["update"] >= saved
        saved = facts["counters"]["update"]
    assert saved >= 3
    train(2, killed, *flags)
    assert newest(killed)[1] == newest(whole)[1]
    assert deterministic(killed) == deterministic(whole)


PLAIN = [sys.executable, "-m", "pg_mpi.train", "--run-dir", "run", *SMALL, *CARTPOLE]
UNDER_MPIRUN = command(2, "pg_mpi.train", "--run-dir", "run", *SMALL, *CARTPOLE)
WITH_LAUNCHER = [sys.executable, "-m", "pg_mpi.mpi.launch", "-n", "2", "--", *PLAIN[2:]]


@pytest.mark.parametrize(
    "line, number",
    [
        (UNDER_MPIRUN, signal.SIGUSR1),
        (PLAIN, signal.SIGTERM),
        (PLAIN, signal.SIGINT),
        (WITH_LAUNCHER, signal.SIGINT),
        (WITH_LAUNCHER, signal.SIGTERM),
    ],
    ids=["mpirun-USR1", "plain-TERM", "plain-INT", "launcher-INT", "launcher-TERM"],
)
def test_signal_saves_a_checkpoint_and_the_next_start_resumes(tmp_path, line, number):
    process = start(line, tmp_path)
    wait_for_updates(process, tmp_path, 2)
    os.kill(process.pid, number)
    result = finish(process)
    assert result.returncode == 75, result.stdout + result.stderr
    assert "asked to stop by a signal" in result.stdout
    _, facts = checkpoint_file.load(newest(tmp_path)[0])
    stopped = facts["counters"]["update"]
    assert stopped == metrics(tmp_path)[-1]["update"]
    if line is UNDER_MPIRUN:
        again = start(line, tmp_path)
        wait_for_updates(again, tmp_path, updates=stopped + 1)
        end(again)
        assert "resumed from" in finish(again).stdout


def test_round_discarded_by_a_signal_is_played_again(tmp_path):
    """A signal discards a long round. The log gives the time until the save, and the resumed run is bit-exact."""
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    flags = [*SMALL, "--env-id", "own_envs:Slow", "--num-steps", 800, "--envs-per-rank", 1, "--total-timesteps", 3200]
    line = command(2, "pg_mpi.train", "--run-dir", "run", *flags)
    process = start(line, resumed)
    wait_for_updates(process, resumed)
    time.sleep(0.2)
    process.send_signal(signal.SIGUSR1)
    result = finish(process, 60)
    assert result.returncode == 75, result.stdout + result.stderr
    assert len(metrics(resumed)) == 1, "the interrupted round was completed"
    assert re.search(r"Checkpoint saved [\d.]+ s later", result.stdout)
    train(2, resumed, *flags)
    train(2, whole, *flags)
    assert newest(whole)[1] == newest(resumed)[1]
    assert deterministic(whole) == deterministic(resumed)


@pytest.mark.parametrize("ranks", [1, 2])
def test_killed_mpirun_ends_all_ranks(tmp_path, ranks):
    """A single rank calls no MPI and would not notice. Its lock would refuse the next start."""
    process = start(command(ranks, "pg_mpi.train", "--run-dir", "run", *SMALL, *CARTPOLE), tmp_path)
    wait_for_updates(process, tmp_path, 2)
    process.kill()
    finish(process)  # returns when the last process that holds the output has ended
    train(ranks, tmp_path, *CARTPOLE, "--total-timesteps", 1)


def test_signal_during_startup_is_handled(tmp_path):
    process = start(PLAIN, tmp_path)
    deadline = time.monotonic() + 30
    while not (tmp_path / "run").exists():  # the checks precede the folder, training follows it
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.001)
    os.kill(process.pid, signal.SIGUSR1)
    result = finish(process)
    assert result.returncode == 75, result.stdout + result.stderr
    assert newest(tmp_path)[1]


def test_resume_from_another_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    train_here(*CARTPOLE, "--total-timesteps", 2000)
    train_here(*CARTPOLE, "--run-dir", "second", "--resume", "run", "--total-timesteps", 4000)
    first, last = metrics(tmp_path, "second")[0], metrics(tmp_path)[-1]
    assert first["update"] == last["update"] + 1 and first["env_steps"] > last["env_steps"]
