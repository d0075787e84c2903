"""Lines about runs: running, stopped, killed and finished ones of the real trainer, and budgets by literal numbers."""

import errno
import os
import signal
import sys

import pytest
from folders import write, write_run
from jobs import CARTPOLE, ROOT, SMALL, command, end, finish, run, start, wait_for_updates
from os_errors import failing

from pg_mpi.files import folder_lock
from pg_mpi.status import FINISHED, RUNNING, Run, line_of, read

FLAGS = [*CARTPOLE, *SMALL, "--run-dir", "run"]


def status(folder, *runs):
    result = run([sys.executable, "-m", "pg_mpi.status", *runs], folder, code=0)
    return result.stdout.splitlines()


def begin(folder, *flags):
    """Start a training and wait for two updates."""
    path = folder / "run" / "metrics.jsonl"
    before = path.read_text().count("\n") if path.exists() else 0
    job = start(command(1, "pg_mpi.train", *FLAGS, *flags), folder)
    wait_for_updates(job, folder, before + 2)
    return job


def test_state_of_a_run_from_its_start_to_its_end(tmp_path):
    job = begin(tmp_path, "--total-timesteps", "1e9")
    (running,) = status(tmp_path, "run")
    assert running.startswith("run  running   ") and "steps/s on 1 rank" in running and "left at most" in running
    os.kill(job.pid, signal.SIGUSR1)
    assert finish(job).returncode == 75
    (stopped,) = status(tmp_path, "run")
    assert stopped.startswith("run  stopped   ") and stopped.endswith("asked to stop by a signal")
    job = begin(tmp_path, "--total-timesteps", "1e9")
    end(job)
    job.communicate()  # once every process that holds its output, and so the lock, has ended
    (killed,) = status(tmp_path, "run")
    assert killed.startswith("run  killed    ") and "started at 20" in killed
    run(command(1, "pg_mpi.train", *FLAGS, "--total-timesteps", 1), tmp_path, code=0)
    write_run(tmp_path / "other")
    finished, other = status(tmp_path, "run", "other", str(ROOT))
    assert finished.startswith("run    finished  ") and finished.endswith("of 1 steps played")
    assert other.startswith("other  killed    160,000 steps")


def test_killed_run_counts_as_running_where_there_are_no_locks(tmp_path, monkeypatch):
    monkeypatch.setattr(folder_lock.fcntl, "flock", failing(errno.ENOLCK))
    folder = write_run(tmp_path / "run")
    (folder / "lock").touch()
    assert read(str(folder)).state == RUNNING
    write(folder / "DONE", {"reason": "because"})
    assert read(str(folder)).state == FINISHED


@pytest.mark.parametrize(
    "settings, expected",
    [
        ({}, ""),
        ({"total_timesteps": 5000}, "  0:00:20 left at most"),
        ({"max_walltime": 100.0}, "  0:01:30 left at most"),
        (
            {"max_walltime": 100.0, "total_timesteps": 5000, "target_return": 18.0},
            "  0:00:20 left at most  until the mean is 18",
        ),
        ({"max_walltime": 5.0}, "  0:00:00 left at most"),
    ],
)
def test_end_by_the_nearest_budget(settings, expected):
    last = {"env_steps": 1000, "return_mean": -20.5, "wall_s": 61.0, "sps": 200.0, "ranks": 2}
    text = line_of(Run("running", settings, {"time": "1970-01-01T00:00:10Z"}, last), now=20.0)
    assert text == f"running   1,000 steps  mean -20.50  0:01:01 trained  200 steps/s on 2 ranks{expected}"


def test_damaged_runs_do_not_hide_the_others(tmp_path):
    write_run(tmp_path / "good")
    for name, text in {"a": '{"settings": 1}', "b": "x", "c": '{"settings": {}, "starts": [{"ended": 1}]}'}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(text)
    write_run(tmp_path / "d")
    (tmp_path / "d" / "metrics.jsonl").write_text('{"env_steps": "x", "wall_s": 1}\n{"upd')
    (tmp_path / "e" / "config.json").mkdir(parents=True)
    lines = status(tmp_path, "a", "b", "c", "d", "e", "good")
    assert [line.split()[1] for line in lines] == ["damaged"] * 4 + ["unreadable", "killed"]


def test_no_run_is_one_line(tmp_path):
    result = run([sys.executable, "-m", "pg_mpi.status", "none"], tmp_path, code=2)
    assert result.stderr == "pg_mpi: error: none holds no config.json: give run folders, such as runs/*\n"
