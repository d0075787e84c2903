"""How a job starts, and how it exits: worlds of the wrong size, locks, budgets, and processes that remain."""

import os
import platform
import shlex
import shutil
import signal
import sys

import pytest
from jobs import (
    CARTPOLE,
    SMALL,
    command,
    end,
    finish,
    one_line,
    run,
    start,
    train,
    train_here,
    wait_for_updates,
)

from pg_mpi.config.command_line import parse_train
from pg_mpi.config.errors import SystemFault, UsageError
from pg_mpi.files import checkpoint_folder, folder_lock
from pg_mpi.files.run_folder import RunFolder
from pg_mpi.mpi.launch import launch_variables
from pg_mpi.mpi.world import World
from pg_mpi.run import resume


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

    def line_of(env, folder):
        flags = ["--num-steps", 16, "--minibatch-size", 64, "--run-dir", folder, "--env-id", f"own_envs:{env}"]
        return command(1, "pg_mpi.train", *flags)

    line = line_of("Simulator", "run")
    run([*line, "--dry-run"], tmp_path, code=0)
    process = start(line, tmp_path)
    try:
        wait_for_updates(process, tmp_path, 2)
        os.kill(int((tmp_path / "run/lock").read_text().split()[-1]), signal.SIGKILL)  # its simulators live on
        run([*line, "--total-timesteps", "2000"], tmp_path, code=0)
    finally:
        end(process)
    broken = run(line_of("BrokenSimulator", "broken"), tmp_path, code=2)
    assert "cannot be used: RuntimeError: no licence" in broken.stderr
    assert "reward" in run(line_of("SimulatorWithoutReward", "failed"), tmp_path, code=1).stderr


def test_output_that_cannot_be_written_ends_the_run_with_its_exit_code(tmp_path):
    line = [sys.executable, "-m", "pg_mpi.train", "--run-dir", "run", *map(str, [*SMALL, *CARTPOLE])]
    assert run(["sh", "-c", f"{shlex.join(line)} >/dev/full 2>&1"], tmp_path).returncode == 75
    lost = run(["sh", "-c", f"{shlex.join([*line, '--dry-run'])} >/dev/full"], tmp_path, code=75, PYTHONUNBUFFERED="")
    assert "No space left on device" in one_line(lost)
    run(["sh", "-c", f"{shlex.join([*line, '--version'])} >/dev/full"], tmp_path, code=75, PYTHONUNBUFFERED="")
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
