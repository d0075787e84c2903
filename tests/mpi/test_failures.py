"""A failure on one rank ends the job within seconds and names the rank."""

import sys

import numpy as np
import pytest
from chaos.outcome import gone
from jobs import (
    CARTPOLE,
    SMALL,
    STEPS,
    command,
    finish,
    metrics,
    newest,
    one_line,
    run,
    start,
    train,
)

from pg_mpi.files import checkpoint_file
from pg_mpi.mpi.launch.mpirun import mpirun_command


def run_with_fault(tmp_path, fault, ranks=3, under_mpi4py=False, flags=CARTPOLE, extra=(), code=None):
    """Run a job with a fault; no process remains."""
    line = command(ranks, "faults", fault, "--run-dir", "run", *SMALL, *flags, *extra, under_mpi4py=under_mpi4py)
    job = start(line, tmp_path)
    result = finish(job, 40)
    gone(job.pid)
    assert code in (None, result.returncode), result.stderr
    return result


@pytest.mark.parametrize(
    "fault, text, under_mpi4py",
    [("raise", "ArithmeticError: injected", False), ("exit", "SystemExit: 3", True), ("exit0", "SystemExit: 0", False)],
)
def test_exception_on_one_rank_ends_the_job(tmp_path, fault, text, under_mpi4py):
    result = run_with_fault(tmp_path, fault, under_mpi4py=under_mpi4py)
    assert result.returncode not in (0, 75)
    assert text in result.stderr and "Traceback" in result.stderr
    assert "rank 1 of 3 failed: the whole job ends" in result.stderr


@pytest.mark.parametrize("fault", ["exit_hard", "SIGKILL"])
def test_killed_rank_ends_the_job(tmp_path, fault):
    result = run_with_fault(tmp_path, fault)
    assert result.returncode not in (0, 75)
    assert "rank 1" in result.stderr, "the launcher does not name the rank"


@pytest.mark.parametrize("fault", ["SIGSTOP", "greedy loop"])
def test_watchdog_ends_a_hanging_job(tmp_path, fault):
    result = run_with_fault(tmp_path, fault, extra=["--watchdog", 3])
    assert result.returncode not in (0, 75)
    waiting = [f"rank {rank} of 3" in result.stderr for rank in (0, 2)]
    assert any(waiting) and "saw no update end for 3 s" in result.stderr
    assert "pg_mpi/mpi/world.py" in result.stderr, "the stack of a waiting rank is missing"
    assert fault == "SIGSTOP" or "in faulty" in result.stderr, "the stack of the hanging rank is missing"


def test_watchdog_does_not_end_a_running_job(tmp_path):
    """All updates together take longer than the watchdog's limit."""
    result = train(2, tmp_path, *CARTPOLE, "--watchdog", 2, "--max-walltime", 8, code=75)
    assert metrics(tmp_path)[-1]["wall_s"] > 7 and "no update" not in result.stderr


def test_non_finite_gradient_is_skipped_on_all_ranks(tmp_path):
    extra = ["--total-timesteps", 6 * 3 * 128, "--sync-check-every", 1]
    run_with_fault(tmp_path, "nan:2,4", flags=STEPS, extra=extra, code=0)
    lines = metrics(tmp_path)
    assert [line["skipped_updates"] for line in lines] == [0, 1, 1, 2, 2, 2]
    arrays, _ = checkpoint_file.load(newest(tmp_path)[0])
    assert np.isfinite(arrays["theta"]).all() and np.isfinite(arrays["optimizer"]).all()


def test_ten_non_finite_gradients_in_a_row_end_the_job(tmp_path):
    updates = ",".join(map(str, range(3, 40)))
    extra = ["--envs-per-rank", 1, "--checkpoint-every", "2"]
    result = run_with_fault(tmp_path, f"nan:{updates}", ranks=2, extra=extra, code=1)
    assert "the gradient was not finite in 10 updates in a row, the last of them update 12" in one_line(result)
    arrays, facts = checkpoint_file.load(newest(tmp_path)[0])
    assert facts["counters"]["update"] == 10 and np.isfinite(arrays["theta"]).all()


KINDS = "Nehalem", "Haswell"  # of processors
PRODUCT = """
import zlib, numpy
a = numpy.random.default_rng(0).normal(size=(256, 256)).astype(numpy.float32)
print(zlib.crc32(a @ a))
"""


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    """Skip where the BLAS of numpy has one kernel for both kinds, as where it is not OpenBLAS."""
    folder = tmp_path_factory.mktemp("kernels")
    found = {run([sys.executable, "-c", PRODUCT], folder, OPENBLAS_CORETYPE=kind, code=0).stdout for kind in KINDS}
    if len(found) == 1:
        pytest.skip("this BLAS has the same kernel for both kinds of processors")


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize(
    "flags",
    [
        ["--hidden", 16, "--max-frames", 400, "--total-timesteps", 800],
        ["--preset", "karpathy", "--max-frames", 400, "--total-timesteps", 800],
        ["--env-id", "CartPole-v1", "--total-timesteps", 4000],
    ],
    ids=str,
)
def test_ranks_on_different_processors_hold_the_same_weights(tmp_path, flags):
    """OpenBLAS uses different kernels on each rank, as on nodes of different generations."""
    args = map(str, [*flags, "--run-dir", "run", "--sync-check-every", 1])
    python = [sys.executable, "-m", "pg_mpi.train", *args]
    old, new = (["env", f"OPENBLAS_CORETYPE={kind}", *python] for kind in KINDS)
    line = [*mpirun_command(1), *old, ":", "-n", "1", *new]
    run(line, tmp_path, code=0)
    assert len(metrics(tmp_path)) >= 2 and metrics(tmp_path)[-1]["ranks"] == 2


def test_failed_emulators_are_replaced(tmp_path):
    """An evaluation is left out."""
    extra = ["--total-timesteps", 5 * 2 * 128, "--checkpoint-every", 3, "--evaluate-every", 5, "--max-frames", 2000]
    result = run_with_fault(tmp_path, "emulator:0.02", ranks=2, flags=STEPS, extra=extra, code=0)
    left_out = "an emulator failed (RuntimeError: injected in the emulator): this evaluation is left out"
    assert left_out in result.stderr and not (tmp_path / "run" / "evaluations.json").exists()
    counts = [line["emulator_errors"] for line in metrics(tmp_path)]
    assert counts == sorted(counts) and 3 < counts[-1] < 40, "1 in 50 of 640 steps"
    _, facts = checkpoint_file.load(newest(tmp_path)[0])
    assert facts["counters"]["emulator_errors"] == counts[-1]


def test_repeated_emulator_failures_end_the_job(tmp_path):
    result = run_with_fault(tmp_path, "emulator:1", ranks=2, flags=STEPS)
    assert result.returncode not in (0, 75)
    assert "the emulator of env 1 failed 10 times in a row (RuntimeError: injected in the emulator)" in one_line(result)


@pytest.mark.parametrize("size, path", [(30_000, "run/checkpoints/step-"), (300, "run")])
def test_full_disk_ends_the_job_with_one_line(tmp_path, size, path):
    extra = ["--hidden", "100", "--total-timesteps", "4000", "--checkpoint-every", "3"]
    result = run_with_fault(tmp_path, f"disk:{size}", extra=extra, code=1)
    line = one_line(result)
    assert path in line and "cannot be written (File too large): fix that" in line
    assert not list(tmp_path.glob("run/**/*.tmp")), "a temporary file remains"


def test_usage_error_on_one_rank_ends_the_job(tmp_path):
    result = run_with_fault(tmp_path, "usage")
    assert result.returncode not in (0, 75)
    assert "injected on one rank" in result.stderr


def test_sync_check_names_the_rank_with_different_weights(tmp_path):
    result = run_with_fault(tmp_path, "weights", extra=["--sync-check-every", "2"])
    assert result.returncode not in (0, 75)
    assert "after update 2 the weights of rank 1 differ" in result.stderr


@pytest.mark.parametrize("fault, rank", [("weights", 1), ("weights0", 0)])
def test_ranks_of_a_host_do_not_take_over_different_weights(tmp_path, fault, rank):
    """A divided step takes each weight from one rank."""
    result = run_with_fault(tmp_path, fault, extra=["--sync-check-every", "1000", "--checkpoint-every", "1000"])
    assert result.returncode not in (0, 75)
    assert f"before an update the weights of rank {rank} differ" in result.stderr


@pytest.mark.parametrize("fault", ["weights", "weights0"])
def test_diverged_weights_are_never_saved(tmp_path, fault):
    """The weights are checked before every save, whatever --sync-check-every is."""
    result = run_with_fault(tmp_path, fault, extra=["--sync-check-every", "1000", "--checkpoint-every", "1"])
    assert result.returncode not in (0, 75)
    rank = {"weights": 1, "weights0": 0}[fault]
    assert f"the weights of rank {rank} differ" in result.stderr
    assert result.stderr.count("RuntimeError") == 1, "an error of all ranks is not printed once"
    _, facts = checkpoint_file.load(newest(tmp_path)[0])
    assert facts["counters"]["update"] == 1, "diverged weights were saved"
