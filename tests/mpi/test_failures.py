"""A failure on one rank ends the job within seconds and names the rank."""

import os
import platform
import shlex
import shutil
import signal
import sys

import numpy as np
import pytest
from chaos.outcome import gone
from jobs import (
    CARTPOLE,
    SMALL,
    STEPS,
    command,
    end,
    finish,
    metrics,
    newest,
    one_line,
    run,
    start,
    train,
    train_here,
    wait_for_updates,
)

from pg_mpi.config.command_line import parse_train
from pg_mpi.config.errors import SystemFault, UsageError
from pg_mpi.files import checkpoint_file, checkpoint_folder, folder_lock
from pg_mpi.files.run_folder import RunFolder
from pg_mpi.mpi.launch import launch_variables
from pg_mpi.mpi.launch.mpirun import mpirun_command
from pg_mpi.mpi.world import World
from pg_mpi.run import resume


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
    old, new = (["env", f"OPENBLAS_CORETYPE={kind}", *python] for kind in ("Nehalem", "Haswell"))
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


@pytest.mark.parametrize("size, rank", [("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"), ("PMI_SIZE", "PMI_RANK")])
def test_singleton_world_is_refused(size, rank):
    with pytest.raises(UsageError, match="the launcher started 2 processes, but MPI sees 1"):
        launch_variables.check_launch(1, environ={size: "2"})
    launch_variables.check_launch(1, expected=1, environ={size: "2"})
    assert [launch_variables.is_first_process({rank: number}) for number in "01"] == [True, False]


def test_singleton_worlds_are_refused_with_one_line(tmp_path):
    """As under ``srun --mpi=none``: in each process MPI has one rank. Only the first process prints."""
    line = [sys.executable, "-m", "pg_mpi.train", "--run-dir", "run"]
    jobs = [start(line, tmp_path, SLURM_STEP_NUM_TASKS="2", SLURM_PROCID=str(rank)) for rank in range(2)]
    outputs = [(result.stdout, result.stderr) for result in (finish(job, 15) for job in jobs)]
    assert [job.returncode for job in jobs] == [2, 2]
    assert "the launcher started 2 processes, but MPI sees 1" in outputs[0][1]
    assert outputs[1] == ("", "")
    assert not (tmp_path / "run").exists()


def test_expect_ranks_refuses_another_number(tmp_path):
    refused = train(2, tmp_path, "--expect-ranks", 3, code=2)
    assert "--expect-ranks 3, but MPI gives 2" in one_line(refused)


def test_help_is_printed_once(tmp_path):
    result = run(command(3, "pg_mpi.train", "--help"), tmp_path, code=0)
    assert result.stdout.count("usage: python -m pg_mpi.train") == 1


def test_lock_is_held_only_while_the_trainer_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(folder_lock, "PATIENCE", 0.2)
    first = start(command(2, "pg_mpi.train", "--run-dir", "run", *SMALL, *CARTPOLE), tmp_path)
    wait_for_updates(first, tmp_path)
    with pytest.raises(SystemFault, match="the run folder run is in use by .* process") as refused:
        RunFolder("run").open()
    assert refused.value.code == 75
    end(first)
    finish(first)
    assert (tmp_path / "run" / "lock").exists()
    train(2, tmp_path, *CARTPOLE, "--total-timesteps", 1)


def test_walltime_ends_a_long_round(tmp_path):
    """A round of 20 s is discarded after 4."""
    flags = ["--env-id", "own_envs:Slow", "--num-steps", 10_000, "--envs-per-rank", 1, "--max-walltime", 4]
    result = run(command(1, "pg_mpi.train", "--run-dir", "run", *flags), tmp_path, code=75)
    assert "the walltime budget of 4 s is spent. No update was completed: a round that is not over" in result.stdout
    assert (tmp_path / "run" / "metrics.jsonl").read_text() == ""


def test_processes_of_an_environment_end_with_the_run(tmp_path):
    """They neither ignore its signals nor hold its lock, and it closes them; so does a run that is killed."""
    flags = ["--run-dir", "run", "--env-id", "own_envs:Simulator", "--num-steps", 16, "--minibatch-size", 64]
    line = command(1, "pg_mpi.train", *flags)
    run([*line, "--dry-run"], tmp_path, code=0)
    process = start(line, tmp_path)
    try:
        wait_for_updates(process, tmp_path, 2)
        os.kill(int((tmp_path / "run/lock").read_text().split()[-1]), signal.SIGKILL)  # its simulators live on
        run([*line, "--total-timesteps", "2000"], tmp_path, code=0)
    finally:
        end(process)
    other = {"own_envs:Simulator": "own_envs:BrokenSimulator", "run": "other"}
    broken = [other.get(word, word) for word in line]
    assert "cannot be used: RuntimeError: no licence" in run(broken, tmp_path, code=2).stderr


def test_output_that_cannot_be_written_ends_the_run_with_its_exit_code(tmp_path):
    line = [sys.executable, "-m", "pg_mpi.train", "--run-dir", "run", *map(str, [*SMALL, *CARTPOLE])]
    assert run(["sh", "-c", f"{shlex.join(line)} >/dev/full 2>&1"], tmp_path).returncode == 75
    lost = run(["sh", "-c", f"{shlex.join([*line, '--dry-run'])} >/dev/full"], tmp_path, code=75, PYTHONUNBUFFERED="")
    assert "No space left on device" in one_line(lost)
    run(["sh", "-c", f"{shlex.join([*line, '--help'])} >&-"], tmp_path, code=0)
    left = run(["bash", "-c", f"{shlex.join(line)} | head -n 1; exit ${{PIPESTATUS[0]}}"], tmp_path, code=1)
    assert "Broken pipe" in one_line(left)


def test_checkpoint_that_is_saved_during_a_start_is_resumed_from(tmp_path, monkeypatch):
    """Without locks an older trainer saves until the new one claims the folder."""
    monkeypatch.chdir(tmp_path)
    flags = list(map(str, ["--run-dir", "run", *SMALL, *CARTPOLE, "--envs-per-rank", 4, "--total-timesteps", 1]))
    train_here(*flags)
    later, resumed = checkpoint_folder.path_of("run/checkpoints", 10**6), resume._resumed

    def saved_meanwhile(*args):
        start = resumed(*args)
        if start.path != later:
            shutil.copy(start.path, later)
        return start

    monkeypatch.setattr(resume, "_resumed", saved_meanwhile)
    folder = RunFolder("run")
    start, _ = resume.begin(World(), folder, *parse_train(flags), 1)
    folder.unlock()
    assert start.path == later and not list(tmp_path.rglob("*.damaged"))


def test_ctrl_c_of_one_process_prints_nothing(tmp_path):
    code = "import os, signal, time; from pg_mpi.mpi import process; process.run(lambda world, argv: main(), [], True)"
    main = "main = lambda: os.kill(os.getpid(), signal.SIGINT) or time.sleep(9)"
    ended = run([sys.executable, "-c", f"{main}\n{code}"], tmp_path)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")


def test_host_that_cannot_load_mpi_is_named(tmp_path):
    """Rank 1 stands for the first rank of another host. Rank 0 waits for it in MPI_Init, and is killed."""
    broken = "export MPI4PY_LIBMPI=/nonexistent OMPI_COMM_WORLD_LOCAL_RANK=0 MPI_LOCALRANKID=0"
    script = f'if [ "${{OMPI_COMM_WORLD_RANK:-$PMI_RANK}}" = 1 ]; then {broken}; fi; exec "$@"'
    line = command(2, "pg_mpi.train", "--run-dir", "run", *SMALL, *CARTPOLE)
    at = line.index(sys.executable)
    ended = run([*line[:at], "sh", "-c", script, "sh", *line[at:]], tmp_path)
    assert ended.returncode == 2 and f"pg_mpi: error: {platform.node()}: MPI cannot be loaded" in ended.stderr


def test_signal_to_a_process_that_is_about_to_exit_does_not_replace_its_exit_code(tmp_path):
    """srun ends the last ranks once one has exited."""
    code = (
        "import os, signal, time\nfrom pg_mpi.mpi import process\nfrom pg_mpi.mpi.world import World\n"
        "class Slow:\n    def __del__(self, kill=os.kill, own=os.getpid(), number=signal.SIGTERM):\n"
        "        kill(own, number)\nslow = Slow()\nprocess._leave(World(), 75)"
    )
    run([sys.executable, "-c", code], tmp_path, code=75)
