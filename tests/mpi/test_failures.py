"""Whatever goes wrong on one rank ends the whole job within seconds, and says which rank it was."""

import contextlib
import os
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from jobs import SMALL, STEPS, command, end, finish, metrics, newest, one_line, run, start, train

from pg_mpi.files import checkpoint_file
from pg_mpi.mpi.launch.mpirun import mpirun_command

SCRIPT = str(Path(__file__).with_name("faults.py"))


def with_fault(tmp_path, fault, ranks=3, under_mpi4py=False, extra=()):
    python = [sys.executable, *(["-m", "mpi4py"] if under_mpi4py else []), SCRIPT, fault]
    line = [*mpirun_command(ranks), *python, "--run-dir", "run", *SMALL, *STEPS, *extra]
    return run(line, tmp_path, limit=40)


@pytest.mark.parametrize("under_mpi4py", [False, True], ids=["plain", "mpi4py"])
@pytest.mark.parametrize(
    "fault, text", [("raise", "ArithmeticError: planted"), ("exit", "SystemExit: 3"), ("exit0", "SystemExit: 0")]
)
def test_one_rank_fails(tmp_path, fault, text, under_mpi4py):
    begun = time.monotonic()
    result = with_fault(tmp_path, fault, under_mpi4py=under_mpi4py)
    last_sign = (tmp_path / "run" / "metrics.jsonl").stat().st_mtime
    assert result.returncode not in (0, 75)
    assert text in result.stderr and "Traceback" in result.stderr
    assert "rank 1 of 3 failed: the whole job ends" in result.stderr
    assert time.time() - last_sign < 5 and time.monotonic() - begun < 30


@pytest.mark.parametrize("fault", ["exit_hard", "SIGSEGV", "SIGKILL", "SIGABRT"])
def test_one_rank_dies_without_a_word(tmp_path, fault):
    result, late, left = timed(tmp_path, fault)
    assert result.returncode not in (0, 75)
    assert "rank 1" in result.stderr, "the launcher says whose death it was"
    assert late < 5 and not left


@pytest.mark.parametrize("fault", ["SIGSTOP", "loop", "greedy loop"])
def test_the_watchdog_ends_what_hangs(tmp_path, fault):
    result, late, left = timed(tmp_path, fault, "--watchdog", 3)
    assert result.returncode not in (0, 75)
    assert late < 3 + 2 + 2 and not left  # two seconds more for cores that other tests use too
    waiting = [f"rank {rank} of 3" in result.stderr for rank in (0, 2)]
    assert any(waiting) and "saw no update end for 3 s" in result.stderr
    assert "pg_mpi/mpi/world.py" in result.stderr, "where those who wait are"
    assert fault == "SIGSTOP" or "in faulty" in result.stderr, "where the one that hangs is"


def test_the_watchdog_lets_live_what_moves(tmp_path):
    """Many updates, together longer than the watchdog's patience; so is the start."""
    result = train(2, tmp_path, *STEPS, "--watchdog", 2, "--total-timesteps", 50 * 2 * 128)
    assert metrics(tmp_path)[-1]["wall_s"] > 3 and "no update" not in result.stderr


def test_a_gradient_that_is_not_finite_is_skipped_by_all(tmp_path):
    result = with_fault(tmp_path, "nan:2,4", extra=["--total-timesteps", str(6 * 3 * 128), "--sync-check-every", "1"])
    assert result.returncode == 0, result.stderr
    lines = metrics(tmp_path)
    assert [line["skipped_updates"] for line in lines] == [0, 1, 1, 2, 2, 2]
    arrays, _ = checkpoint_file.load(newest(tmp_path)[0])
    assert np.isfinite(arrays["theta"]).all() and np.isfinite(arrays["optimizer"]).all()


def test_gradients_that_stay_not_finite_stop_the_job(tmp_path):
    updates = ",".join(map(str, range(3, 40)))
    result = with_fault(tmp_path, f"nan:{updates}", extra=["--checkpoint-every", "2"])
    assert result.returncode == 1
    assert "the gradient was not finite in 10 updates in a row, the last of them update 12" in one_line(result)
    arrays, facts = checkpoint_file.load(newest(tmp_path)[0])
    assert facts["counters"]["update"] == 10 and np.isfinite(arrays["theta"]).all()


@pytest.mark.parametrize("flags", [["--hidden", 16], ["--preset", "karpathy"], ["--env-id", "CartPole-v1"]], ids=str)
def test_processors_of_several_kinds_hold_the_same_weights(tmp_path, flags):
    """OpenBLAS takes other products on each rank, as on nodes of several generations: nothing that all do by itself."""
    words = map(str, [*flags, "--run-dir", "run", "--sync-check-every", 1, "--total-timesteps", 6000])
    python = [sys.executable, "-m", "pg_mpi.train", *words]
    old, new = (["env", f"OPENBLAS_CORETYPE={kind}", *python] for kind in ("Nehalem", "Haswell"))
    line = [*mpirun_command(1), *old, ":", "-n", "1", *new]
    result = run(line, tmp_path)
    assert result.returncode == 0, result.stderr
    assert len(metrics(tmp_path)) >= 2 and metrics(tmp_path)[-1]["ranks"] == 2


def test_emulators_that_fail_are_replaced(tmp_path):
    extra = ["--total-timesteps", str(20 * 3 * 128), "--checkpoint-every", "3"]
    result = with_fault(tmp_path, "emulator:0.01", extra=extra)
    assert result.returncode == 0, result.stderr
    counts = [line["emulator_errors"] for line in metrics(tmp_path)]
    assert counts == sorted(counts) and 5 < counts[-1] < 80, "1 in 100 of 2,560 steps"
    _, facts = checkpoint_file.load(newest(tmp_path)[0])
    assert facts["counters"]["emulator_errors"] == counts[-1]


def test_an_emulator_that_always_fails_ends_the_job(tmp_path):
    result = with_fault(tmp_path, "emulator:1")
    assert result.returncode not in (0, 75)
    assert "the emulator of env 1 failed 10 times in a row (RuntimeError: planted in the emulator)" in one_line(result)


@pytest.mark.parametrize("size, path", [(30_000, "run/checkpoints/step-"), (300, "run")])
def test_a_full_disk_stops_the_job_with_one_line(tmp_path, size, path):
    result = with_fault(tmp_path, f"disk:{size}", extra=["--total-timesteps", "4000", "--checkpoint-every", "3"])
    assert result.returncode == 1
    line = one_line(result)
    assert path in line and "cannot be written (File too large): fix that" in line
    assert not list(tmp_path.glob("run/**/*.tmp")), "half a file was left"


def timed(tmp_path, fault, *extra):
    """A job with a fault: (result, seconds from its last update to its end, processes that it left behind)."""
    line = [*mpirun_command(3), sys.executable, SCRIPT, fault, "--run-dir", "run", *SMALL, *STEPS, *map(str, extra)]
    job = start(line, tmp_path)
    result = finish(job, 40)
    late = time.time() - (tmp_path / "run" / "metrics.jsonl").stat().st_mtime
    until = time.monotonic() + 3  # a killed process needs a moment to be gone
    while (left := session(job.pid)) and time.monotonic() < until:
        time.sleep(0.05)
    return result, late, left


def session(leader):
    """The processes of a session that still run."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.getsid(int(entry.name)) == leader and b"Z" not in (entry / "stat").read_bytes().split()[2:3]:
                found.append((entry / "cmdline").read_bytes())
    return found


def test_a_usage_error_on_one_rank_alone_ends_all(tmp_path):
    result = with_fault(tmp_path, "usage")
    assert result.returncode not in (0, 75)
    assert "planted on one rank" in result.stderr


def test_diverged_weights_stop_the_job_and_name_the_rank(tmp_path):
    result = with_fault(tmp_path, "weights", extra=["--sync-check-every", "3"])
    assert result.returncode not in (0, 75)
    assert "after update 3 the weights of rank 1 differ" in result.stderr


@pytest.mark.parametrize("stray", ["weights", "weights0"])
def test_diverged_weights_are_never_saved(tmp_path, stray):
    """The proof comes before every save, whatever the interval of the checks."""
    result = with_fault(tmp_path, stray, extra=["--sync-check-every", "1000", "--checkpoint-every", "1"])
    assert result.returncode not in (0, 75)
    rank = {"weights": 1, "weights0": 0}[stray]
    assert f"the weights of rank {rank} differ" in result.stderr
    assert result.stderr.count("RuntimeError") == 1, "an error that all ranks share is told once"
    _, facts = checkpoint_file.load(newest(tmp_path)[0])
    assert facts["counters"]["update"] == 1, "weights that had diverged were saved"


def test_equal_weights_pass_the_check(tmp_path):
    train(3, tmp_path, *STEPS, "--sync-check-every", 1, "--total-timesteps", 2000)


@pytest.mark.parametrize("name", ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"])
def test_a_silent_world_of_one_is_refused(tmp_path, name):
    """As under ``srun --mpi=none``: each process thinks it is alone, and only the first may speak."""
    begun = time.monotonic()
    rank = {"OMPI_COMM_WORLD_SIZE": "OMPI_COMM_WORLD_RANK", "PMI_SIZE": "PMI_RANK"}.get(name, "SLURM_PROCID")
    line = [sys.executable, "-m", "pg_mpi.train", "--run-dir", "run"]
    jobs = [start(line, tmp_path, **{name: "2", rank: str(number)}) for number in range(2)]
    outputs = [(result.stdout, result.stderr) for result in map(finish, jobs)]
    took = time.monotonic() - begun
    assert [job.returncode for job in jobs] == [2, 2]
    assert "the launcher started 2 processes, but MPI sees 1" in outputs[0][1]
    assert outputs[1] == ("", "")
    assert not (tmp_path / "run").exists()
    assert took < 15


def test_expect_ranks(tmp_path):
    refused = train(2, tmp_path, "--expect-ranks", 3, code=2)
    assert "--expect-ranks 3, but MPI gives 2" in one_line(refused)
    train(2, tmp_path, "--expect-ranks", 2, "--total-timesteps", 1)


def test_help_is_printed_once_and_needs_no_mpi(tmp_path):
    result = run(command(3, "pg_mpi.train", "--help"), tmp_path)
    assert result.returncode == 0
    assert result.stdout.count("usage: python -m pg_mpi.train") == 1


@pytest.mark.parametrize("ranks", [1, 2])
def test_the_lock_of_a_living_trainer_holds_and_a_dead_ones_does_not(tmp_path, ranks):
    line = command(ranks, "pg_mpi.train", "--run-dir", "run", *SMALL)
    first = start(line, tmp_path)
    deadline = time.monotonic() + 30
    while not (tmp_path / "run" / "metrics.jsonl").exists():
        assert time.monotonic() < deadline and first.poll() is None
        time.sleep(0.05)
    refused = run(line, tmp_path)
    assert refused.returncode == 2
    assert "the run folder run is in use by" in one_line(refused)
    end(first)
    finish(first)
    assert (tmp_path / "run" / "lock").exists()
    train(ranks, tmp_path, "--total-timesteps", 1)
