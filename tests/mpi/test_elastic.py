"""``--elastic``: a run continues without failed ranks, under ``mpirun --with-ft ulfm``."""

import os
import signal
import sys

import pytest
from chaos.outcome import gone
from jobs import (
    CARTPOLE,
    SMALL,
    STEPS,
    command,
    deterministic,
    finish,
    metrics,
    needs_ulfm,
    newest,
    one_line,
    ranks_of,
    run,
    start,
    train,
    wait_for_updates,
)

from pg_mpi.files import checkpoint_file
from pg_mpi.mpi.launch.mpirun import mpirun_command

ENVS = ["--num-steps", 64, "--envs-per-rank", 3, "--seed", 7]
FLAGS = ["--run-dir", "run", *SMALL, *CARTPOLE, *ENVS]
PONG = ["--run-dir", "run", *SMALL, *STEPS, *ENVS, "--max-frames", 400]
STEPS_PER_UPDATE = 4 * 3 * 64
FAULTS = ["-m", "faults"]
pytestmark = needs_ulfm


def elastic(ranks, *args, flags=FLAGS, program=("-m", "pg_mpi.train")):
    """Return the command line of an elastic job."""
    start, *options = mpirun_command(ranks)
    python = [sys.executable, *program, *flags, "--elastic", *args]
    return [start, "--with-ft", "ulfm", *options, *map(str, python)]


def test_too_few_ranks_left_checkpoint_and_exit_75(tmp_path):
    job = start(elastic(3, "--min-ranks", 3), tmp_path)
    wait_for_updates(job, tmp_path, 2)
    os.kill(ranks_of(job)[1], signal.SIGKILL)
    result = finish(job)
    assert result.returncode == 75, result.stderr
    assert "stopped: 2 ranks are left, fewer than --min-ranks 3. Checkpoint saved" in result.stdout
    assert len(checkpoint_file.load(newest(tmp_path)[0])[1]["envs"]) == 9
    run(command(3, "pg_mpi.train", *FLAGS, "--total-timesteps", 1), tmp_path, code=0)


def test_reproducible_run_is_equal_after_losing_a_rank(tmp_path):
    """With --reproducible a run that loses a rank gives the same checkpoint and metrics as one on one rank."""
    whole, shrunk = tmp_path / "whole", tmp_path / "shrunk"
    flags = ["--reproducible", "--num-steps", 32, "--total-timesteps", 4 * 3 * 2 * 32, "--envs-per-rank"]
    train(1, whole, *PONG, *flags, 6)
    killed = [*FAULTS, "kill:wait,1"]  # with a round that is played and not learned
    result = run(elastic(3, *flags, 2, flags=PONG, program=killed), shrunk, limit=60, code=0)
    assert "lost rank 1 of 3: 2 left" in result.stdout and "finished" in result.stdout
    assert newest(shrunk)[1] == newest(whole)[1]
    assert [line["ranks"] for line in metrics(shrunk)] == [3, 2, 2, 2]
    assert [{**line, "ranks": 1} for line in deterministic(shrunk)] == deterministic(whole)


def test_shrinks_to_one_rank_then_stops_and_resumes(tmp_path):
    """Two neighbours fail together, so that buddy copies are lost; then another rank. The survivor saves and stops."""
    job = start(elastic(4), tmp_path)
    wait_for_updates(job, tmp_path)
    pids = ranks_of(job)
    for failed in ((1, 2), (0,)):
        for rank in failed:
            os.kill(pids[rank], signal.SIGKILL)
        wait_for_updates(job, tmp_path, metrics(tmp_path)[-1]["update"] + 3)
    job.send_signal(signal.SIGUSR1)
    result = finish(job)
    assert result.returncode == 75, result.stdout + result.stderr
    assert "lost rank 0 of 2: 1 left" in result.stdout
    steps = [line["env_steps"] for line in metrics(tmp_path)]
    assert steps == [STEPS_PER_UPDATE * update for update in range(1, len(steps) + 1)], (
        "an update lacks steps of an env"
    )
    assert len(checkpoint_file.load(newest(tmp_path)[0])[1]["envs"]) == 12
    train(4, tmp_path, *FLAGS[2:], "--total-timesteps", steps[-1] + STEPS_PER_UPDATE)
    assert metrics(tmp_path)[-1]["ranks"] == 4


def test_exception_ends_an_elastic_job(tmp_path):
    result = run(elastic(3, program=[*FAULTS, "raise"]), tmp_path, limit=60)
    assert result.returncode not in (0, 75) and "ArithmeticError: injected" in result.stderr
    assert result.stderr.count("Traceback") <= 1, "another rank prints a traceback"
    assert len(metrics(tmp_path)) < 4


def test_exited_rank_counts_as_failed(tmp_path):
    result = run(elastic(3, "--total-timesteps", 4 * 3 * 3 * 64, program=[*FAULTS, "exit_hard"]), tmp_path, limit=60)
    assert "lost rank 1 of 3" in result.stdout and "finished" in result.stdout, result.stderr


def test_watchdog_ends_a_hanging_elastic_job(tmp_path):
    """A stopped rank does not exit, so mpirun has to end it."""
    job = start(elastic(3, "--watchdog", 3, program=[*FAULTS, "SIGSTOP"]), tmp_path)
    result = finish(job, 60)
    assert result.returncode not in (0, 75) and "saw no update end for 3 s" in result.stderr
    gone(job.pid)


@pytest.mark.parametrize("phase, rank", [("allreduce", 1), ("record", 0), ("end", 0)])
def test_rank_killed_in_a_critical_phase(tmp_path, phase, rank):
    """In an exchange, before the buddy copies are sent, and at the end before the other ranks are notified."""
    args = ["--checkpoint-every", 1, "--trace", "--total-timesteps", 4 * 3 * 3 * 64]
    result = run(elastic(3, *args, program=[*FAULTS, f"kill:{phase},{rank}"]), tmp_path, limit=60, code=0)
    assert f"lost rank {rank} of 3" in result.stdout and (tmp_path / "run/DONE").exists()
    assert [line["update"] for line in metrics(tmp_path)] == [1, 2, 3, 4]
    assert not list((tmp_path / "run").rglob("*.tmp"))


def test_rank_that_fails_while_another_is_given_up_is_named_too(tmp_path):
    line = elastic(4, "--total-timesteps", 4 * 4 * 3 * 64, program=[*FAULTS, "two losses"])
    result = run(line, tmp_path, limit=60, code=0)
    assert "lost rank 1 of 4, then rank 1 of 3: 2 left, which continue" in result.stdout


def test_elastic_is_refused_without_ulfm(tmp_path):
    result = run(command(2, "pg_mpi.train", *FLAGS, "--elastic"), tmp_path)
    assert result.returncode == 2 and "--elastic needs" in one_line(result) and "--with-ft ulfm" in result.stderr


def test_failed_rank_ends_the_job_without_elastic(tmp_path):
    """Under --with-ft MPI_Abort does not end the other ranks, so they end each other."""
    line = [argument for argument in elastic(3) if argument != "--elastic"]
    job = start(line, tmp_path)
    wait_for_updates(job, tmp_path)
    os.kill(ranks_of(job)[1], signal.SIGKILL)
    result = finish(job, 20)
    assert result.returncode not in (0, 75) and "rank 1 of 3 is gone: the whole job ends" in result.stderr


def test_launcher_starts_mpirun_with_ft_for_elastic(tmp_path):
    line = [sys.executable, "-m", "pg_mpi.mpi.launch", "-n", 2, "--", "pg_mpi.train", *FLAGS, "--elastic"]
    run([*map(str, line), "--total-timesteps", "1"], tmp_path, code=0)
