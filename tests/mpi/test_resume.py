"""2k updates equal k, stop, k: to the last bit of the checkpoint and every deterministic metric."""

import math
import os
import re
import signal
import sys
import time

import pytest
from jobs import SMALL, STEPS, command, deterministic, end, finish, metrics, newest, one_line, start, train

from pg_mpi.files import checkpoint_file

SYNCS = {"episode": [], "steps": [*STEPS, "--envs-per-rank", "2"]}


@pytest.mark.parametrize("sync", SYNCS)
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_bit_exact(tmp_path, ranks, sync):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    whole.mkdir(), parts.mkdir()
    flags = [*SYNCS[sync], "--anneal-timesteps", 20_000]
    train(ranks, whole, *flags, "--total-timesteps", 2400 * ranks)
    for budget in (1000, 2400):
        train(ranks, parts, *flags, "--total-timesteps", budget * ranks)
    assert metrics(parts)[-1]["restarts"] >= 1
    assert os.path.basename(newest(whole)[0]) == os.path.basename(newest(parts)[0])
    assert newest(whole)[1] == newest(parts)[1]
    assert deterministic(whole) == deterministic(parts)


def test_numpy_goes_on_where_look_c_stopped(tmp_path):
    """As a job may that was requeued onto a machine without a compiler: the same bits, and a line that says so."""
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    whole.mkdir(), parts.mkdir()
    told = train(2, whole, *SYNCS["steps"], "--total-timesteps", 4800).stdout
    train(2, parts, *SYNCS["steps"], "--total-timesteps", 2000)
    said = train(2, parts, *SYNCS["steps"], "--total-timesteps", 4800, PG_MPI_NUMPY="1").stdout
    assert newest(whole)[1] == newest(parts)[1]
    assert deterministic(whole) == deterministic(parts)
    assert "features by numpy" in said and "features by numpy" not in told


def test_karpathy_bit_exact(tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    whole.mkdir(), parts.mkdir()
    train(2, whole, "--preset", "karpathy", "--total-timesteps", 6000)
    for budget in (2000, 6000):
        train(2, parts, "--preset", "karpathy", "--total-timesteps", budget)
    assert newest(whole)[1] == newest(parts)[1]


def test_exploring_bit_exact(tmp_path):
    """Freeway's games pay nothing here: each has a preference, and errors of values lead the policy nowhere."""
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    whole.mkdir(), parts.mkdir()
    flags = ["--env-id", "ALE/Freeway-v5", "--max-frames", 200]
    train(2, whole, *flags, "--total-timesteps", 12_000)
    for budget in (5_000, 12_000):
        train(2, parts, *flags, "--total-timesteps", budget)
    assert newest(whole)[1] == newest(parts)[1]
    assert deterministic(whole) == deterministic(parts)
    assert metrics(whole)[-1]["reward_count"] == 0 and metrics(whole)[-1]["entropy"] > 0.99 * math.log(3)


def test_kill_9_at_any_moment_then_the_same_command(tmp_path):
    """mpirun and its ranks killed four times in mid-run: nothing acknowledged is lost, the end is the same."""
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    whole.mkdir(), killed.mkdir()
    flags = [*SYNCS["steps"], "--checkpoint-every", "3", "--total-timesteps", "20000"]
    train(2, whole, *flags)
    line = command(2, "pg_mpi.train", "--run-dir", "run", "--hidden", 16, "--update-epochs", 2, *flags)
    acknowledged, kills = 0, 0
    for delay in (0.05, 0.3, 0.55, 0.8):
        before = len(metrics(killed)) if (killed / "run" / "metrics.jsonl").exists() else 0
        process = start(line, killed)
        deadline = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline:
            if (killed / "run" / "metrics.jsonl").exists() and len(safe_metrics(killed)) > before + 4:
                break
            time.sleep(0.02)
        time.sleep(delay)
        kills += process.poll() is None
        process.kill()
        finish(process)
        _, facts = checkpoint_file.load(newest(killed)[0])
        assert facts["counters"]["update"] >= acknowledged
        acknowledged = facts["counters"]["update"]
    assert kills >= 3 and acknowledged >= 3
    train(2, killed, *flags)
    assert newest(killed)[1] == newest(whole)[1]
    assert deterministic(killed) == deterministic(whole)


def safe_metrics(folder):
    """Lines so far, while another process writes them."""
    with open(folder / "run" / "metrics.jsonl", encoding="utf-8") as file:
        return file.readlines()


def when_training(process, folder, updates=2):
    """Wait until a job has written some updates."""
    deadline = time.monotonic() + 60
    while not (folder / "run" / "metrics.jsonl").exists() or len(safe_metrics(folder)) < updates:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)


PLAIN = [sys.executable, "-m", "pg_mpi.train", "--run-dir", "run", "--hidden", "16"]
UNDER_MPIRUN = command(2, "pg_mpi.train", "--run-dir", "run", "--hidden", 16)
LAUNCHED = [sys.executable, "-m", "pg_mpi.mpi.launch", "-n", "2", "--", *PLAIN[2:]]


@pytest.mark.parametrize(
    "line, number",
    [
        (UNDER_MPIRUN, signal.SIGUSR1),
        (PLAIN, signal.SIGUSR1),
        (PLAIN, signal.SIGTERM),
        (PLAIN, signal.SIGINT),
        (LAUNCHED, signal.SIGINT),
        (LAUNCHED, signal.SIGTERM),
    ],
    ids=["mpirun-USR1", "plain-USR1", "plain-TERM", "plain-INT", "launcher-INT", "launcher-TERM"],
)
def test_a_signal_checkpoints_and_the_next_start_goes_on(tmp_path, line, number):
    process = start(line, tmp_path)
    when_training(process, tmp_path)
    os.kill(process.pid, number)
    result = finish(process)
    assert result.returncode == 75, result.stdout + result.stderr
    assert "asked to stop by a signal" in result.stdout
    _, facts = checkpoint_file.load(newest(tmp_path)[0])
    stopped = facts["counters"]["update"]
    assert stopped == metrics(tmp_path)[-1]["update"]
    again = start(line, tmp_path)
    when_training(again, tmp_path, updates=stopped + 1)
    end(again)
    assert "resumed from" in finish(again).stdout


def test_a_round_that_a_signal_takes_back_is_played_again(tmp_path):
    """A long round is broken off: the time until it is saved is told, and to the last bit nothing has happened."""
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    whole.mkdir(), parts.mkdir()
    flags = [*SMALL, *SYNCS["steps"], "--num-steps", 1500, "--total-timesteps", 7_000]
    line = command(2, "pg_mpi.train", "--run-dir", "run", *flags)
    process = start(line, parts)
    when_training(process, parts, 1)
    time.sleep(0.3)
    process.send_signal(signal.SIGUSR1)
    result = finish(process, 60)
    assert result.returncode == 75, result.stdout + result.stderr
    assert len(metrics(parts)) == 1, "the round under way was played to its end"
    assert re.search(r"Checkpoint saved [\d.]+ s later", result.stdout)
    train(2, parts, *flags)
    train(2, whole, *flags)
    assert newest(whole)[1] == newest(parts)[1]
    assert deterministic(whole) == deterministic(parts)


@pytest.mark.parametrize("ranks", [1, 2])
def test_no_rank_outlives_a_killed_launcher(tmp_path, ranks):
    """One rank never calls MPI and so would not notice; its lock would keep the next start out."""
    process = start(command(ranks, "pg_mpi.train", "--run-dir", "run", *SMALL), tmp_path)
    when_training(process, tmp_path)
    process.kill()
    finish(process)  # returns when the last holder of its output is gone
    train(ranks, tmp_path, "--total-timesteps", 1)


def test_a_signal_during_the_start_is_not_lost(tmp_path):
    process = start(PLAIN, tmp_path)
    deadline = time.monotonic() + 30
    while not (tmp_path / "run").exists():  # it surveys the game before it makes the folder, and trains after
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.001)
    os.kill(process.pid, signal.SIGUSR1)
    result = finish(process)
    assert result.returncode == 75, result.stdout + result.stderr
    assert newest(tmp_path)[1]


def test_another_number_of_ranks_takes_the_envs_over(tmp_path):
    train(2, tmp_path, *STEPS, "--envs-per-rank", 2, "--total-timesteps", 2000)
    train(1, tmp_path, *STEPS, "--envs-per-rank", 4, "--total-timesteps", 4000)
    train(4, tmp_path, *STEPS, "--total-timesteps", 6000)
    assert [line["ranks"] for line in metrics(tmp_path)][-1] == 4
    assert metrics(tmp_path)[-1]["env_steps"] >= 6000
    refused = train(3, tmp_path, *STEPS, "--total-timesteps", 8000, code=2)
    assert "holds 4 envs, which 3 ranks cannot share equally: use a divisor of 4" in one_line(refused)


def test_resume_from_another_folder(tmp_path):
    train(2, tmp_path, "--total-timesteps", 2000)
    train(2, tmp_path, "--run-dir", "second", "--resume", "run", "--total-timesteps", 4000)
    first, last = metrics(tmp_path, "second")[0], metrics(tmp_path)[-1]
    assert first["update"] == last["update"] + 1 and first["env_steps"] > last["env_steps"]


def test_starts_that_come_to_nothing_end_in_a_clear_line(tmp_path):
    """A walltime shorter than the first update, as a requeued job would try for ever."""
    short = ["--max-frames", 400, "--max-walltime", "0.1"]
    for _ in range(3):
        train(1, tmp_path, *short, "--idle-starts", 3, code=75)
    refused = train(1, tmp_path, *short, "--idle-starts", 3, code=2)
    assert "the last 3 starts of run saved nothing after 0 steps" in one_line(refused)
    train(1, tmp_path, "--idle-starts", 0, "--max-frames", 400, "--total-timesteps", 1)
    train(1, tmp_path, "--idle-starts", 1, "--max-frames", 400, "--total-timesteps", 1)  # finished is not idle
