"""``--elastic``: ranks that die, and the others that go on, under a real ``mpirun --with-ft ulfm``."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest
from chaos.outcome import gone
from jobs import SMALL, STEPS, command, deterministic, finish, metrics, newest, one_line, ranks_of, run, start, train

from pg_mpi.files import checkpoint_file
from pg_mpi.mpi.launch.mpirun import find_mpirun, flavour, mpirun_command

FLAGS = ["--run-dir", "run", *SMALL, *STEPS, "--num-steps", 64, "--envs-per-rank", 3, "--max-frames", 400, "--seed", 7]
STEPS_PER_UPDATE = 4 * 3 * 64
UNTIL = ["--total-timesteps", 8 * STEPS_PER_UPDATE]
FAULTS = [str(Path(__file__).with_name("faults.py"))]
pytestmark = pytest.mark.skipif(flavour(find_mpirun()).name != "Open MPI", reason="ULFM is Open MPI's")


def elastic(ranks, *words, program=("-m", "pg_mpi.train")):
    """The command line of a job that outlives its ranks."""
    start, *options = mpirun_command(ranks)
    python = [sys.executable, *program, *FLAGS, "--elastic", *words]
    return [start, "--with-ft", "ulfm", *options, *map(str, python)]


def after(updates, job, folder):
    """Wait until a job has written so many updates."""
    until = time.monotonic() + 60
    while not (folder / "run/metrics.jsonl").exists() or len(metrics(folder)) < updates:
        assert job.poll() is None, finish(job)
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.mark.parametrize("rank", [0, 2])
def test_the_same_bits_without_one_of_four(tmp_path, rank):
    """With --reproducible a run that loses a rank, rank 0 too, is the run that does not."""
    (tmp_path / "whole").mkdir()
    whole = run(command(4, "pg_mpi.train", *FLAGS, "--reproducible", *UNTIL), tmp_path / "whole")
    assert whole.returncode == 0, whole.stderr
    job = start(elastic(4, "--reproducible", *UNTIL), tmp_path)
    after(2, job, tmp_path)
    os.kill(ranks_of(job)[rank], signal.SIGKILL)
    result = finish(job, 60)
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"lost rank {rank} of 4: 3 left" in result.stdout and "finished" in result.stdout
    assert newest(tmp_path)[1] == newest(tmp_path / "whole")[1]
    counts = [line["ranks"] for line in metrics(tmp_path)]
    assert len(counts) == 8 and counts == sorted(counts, reverse=True) and {*counts} == {3, 4}
    assert [{**line, "ranks": 4} for line in deterministic(tmp_path)] == deterministic(tmp_path / "whole")


def test_down_to_one_then_stopped_and_gone_on_with(tmp_path):
    """Two neighbours at the same time, so that one's copies die with it; then another; what is left saves and stops."""
    job = start(elastic(4), tmp_path)
    after(1, job, tmp_path)
    numbered = ranks_of(job)
    for unlucky in ((1, 2), (0,)):
        for rank in unlucky:
            os.kill(numbered[rank], signal.SIGKILL)
        after(metrics(tmp_path)[-1]["update"] + 3, job, tmp_path)
    job.send_signal(signal.SIGUSR1)
    result = finish(job)
    assert result.returncode == 75, result.stdout + result.stderr
    assert "lost rank 0 of 2: 1 left" in result.stdout
    steps = [line["env_steps"] for line in metrics(tmp_path)]
    assert steps == [STEPS_PER_UPDATE * update for update in range(1, len(steps) + 1)], "all twelve envs, always"
    assert len(checkpoint_file.load(newest(tmp_path)[0])[1]["envs"]) == 12
    train(4, tmp_path, *FLAGS[2:], "--total-timesteps", steps[-1] + STEPS_PER_UPDATE)
    assert metrics(tmp_path)[-1]["ranks"] == 4


@pytest.mark.parametrize("fault, text", [("raise", "ArithmeticError: planted"), ("usage", "planted on one rank")])
def test_an_exception_still_ends_the_whole_job(tmp_path, fault, text):
    result = run(elastic(3, program=[*FAULTS, fault]), tmp_path, limit=60)
    assert result.returncode not in (0, 75) and text in result.stderr
    assert result.stderr.count("Traceback") <= 1, "the others have nothing to say"
    assert len(metrics(tmp_path)) < 4


def test_a_rank_that_leaves_without_a_word_is_lost(tmp_path):
    result = run(elastic(3, "--total-timesteps", 4 * 3 * 3 * 64, program=[*FAULTS, "exit_hard"]), tmp_path, limit=60)
    assert "lost rank 1 of 3" in result.stdout and "finished" in result.stdout, result.stderr


@pytest.mark.parametrize("fault", ["SIGSTOP", "loop"])
def test_the_watchdog_ends_what_hangs(tmp_path, fault):
    """A stopped rank does not die: mpirun has to be told to end it."""
    job = start(elastic(3, "--watchdog", 3, program=[*FAULTS, fault]), tmp_path)
    result = finish(job, 60)
    assert result.returncode not in (0, 75) and "saw no update end for 3 s" in result.stderr
    gone(job.pid)


@pytest.mark.parametrize("phase, rank", [("allreduce", 1), ("record", 0), ("end", 0)])
def test_killed_at_the_worst_moment(tmp_path, phase, rank):
    """In an exchange, before the copies are exchanged, and when all is done but that the others hear of it."""
    words = ["--checkpoint-every", 1, "--trace", "--total-timesteps", 4 * 3 * 3 * 64]
    result = run(elastic(3, *words, program=[*FAULTS, f"kill:{phase},{rank}"]), tmp_path, limit=60)
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"lost rank {rank} of 3" in result.stdout and (tmp_path / "run/DONE").exists()
    assert [line["update"] for line in metrics(tmp_path)] == [1, 2, 3, 4]
    assert not list((tmp_path / "run").rglob("*.tmp"))


def test_it_is_refused_where_mpi_cannot(tmp_path):
    result = run(command(2, "pg_mpi.train", *FLAGS, "--elastic"), tmp_path)
    assert result.returncode == 2 and "--elastic needs" in one_line(result) and "--with-ft ulfm" in result.stderr


def test_without_the_flag_a_lost_rank_ends_the_job(tmp_path):
    """MPI_Abort spares the others under --with-ft: they have to end each other."""
    line = [word for word in elastic(3) if word != "--elastic"]
    job = start(line, tmp_path)
    after(1, job, tmp_path)
    os.kill(ranks_of(job)[1], signal.SIGKILL)
    result = finish(job, 20)
    assert result.returncode not in (0, 75) and "rank 1 of 3 is gone: the whole job ends" in result.stderr


def test_the_launcher_asks_for_what_elastic_needs(tmp_path):
    line = [sys.executable, "-m", "pg_mpi.mpi.launch", "-n", 2, "--", "pg_mpi.train", *FLAGS, "--elastic"]
    result = run([*map(str, line), "--total-timesteps", "1"], tmp_path)
    assert result.returncode == 0, result.stderr
