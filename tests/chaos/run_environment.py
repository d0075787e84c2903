"""Unusual environments: shared, unwritable or oddly named run folders, no HOME, little disk space, other clocks."""

import os
import shutil
import sys

import numpy as np
from jobs import STEPS, command, end, finish, newest, one_line, run, start, wait_for_updates
from outcome import fault

from pg_mpi.mpi.launch.mpirun import mpirun_command

RUN = ["--hidden", 16, "--update-epochs", 2, *STEPS, "--total-timesteps", 2 * 128 * 3]


@fault("two trainers in one run folder", tries=3, full=10)
def two_trainers(outcome, folder, tries, seed):
    for number in range(tries):
        with outcome.attempt():
            line = command(2, "pg_mpi.train", "--run-dir", f"run-{number}", "--hidden", 16, *STEPS)
            first = start(line, folder)
            wait_for_updates(first, folder, run=f"run-{number}")
            with outcome.recovery():
                second = run(line, folder, code=75)
            assert "is in use by" in one_line(second)
            assert first.poll() is None, "wrong: the first trainer ended"
            end(first)
            finish(first)


NAMES = (
    "with spaces in it",
    "ünï çødé 乒乓",
    "quote'and\"and$HOME;rm -rf",
    "-starts-with-a-dash",
    "x" * 255,
    "x" * 300,
)


@fault("odd names of run folders", tries=len(NAMES))
def odd_names(outcome, folder, tries, seed):
    for name in NAMES[:tries]:
        with outcome.attempt():
            result = run(command(2, "pg_mpi.train", f"--run-dir={name}", *RUN), folder)
            if len(name) > 255:
                assert result.returncode == 2 and "File name too long" in one_line(result)
            else:
                assert result.returncode == 0 and (folder / name / "DONE").exists(), f"wrong: {name} {result.stderr}"


@fault("no HOME, and one that cannot be written", tries=2)
def missing_home(outcome, folder, tries, seed):
    """Uses the launcher, because Open MPI's mpirun itself fails without HOME."""
    for number, home in zip(range(tries), (None, "/proc")):
        with outcome.attempt():
            env = ["env", "-u", "HOME"] if home is None else ["env", f"HOME={home}"]
            launcher = [sys.executable, "-m", "pg_mpi.mpi.launch", "-n", "2", "--", "pg_mpi.train"]
            run([*env, *launcher, "--run-dir", f"run-{number}", *map(str, RUN)], folder, code=0)


@fault("a run folder, or all but it, that cannot be written (root only)", tries=4)
def read_only_folder(outcome, folder, tries, seed):
    """A read-only mount, because file modes do not apply to root. With and without an existing run."""
    if os.geteuid():
        return
    for number in range(tries):
        with outcome.attempt():
            cwd = folder / str(number)
            line = command(2, "pg_mpi.train", "--run-dir", "run", *RUN)
            if number % 2:
                run(line, cwd, code=0)
            longer = [*line, "--total-timesteps", "2000"]
            mount = 'mount --bind . . && mount -o remount,bind,ro . && cd "$PWD" && exec "$@"'
            with outcome.recovery():
                result = run(["unshare", "--mount", "sh", "-c", mount, "sh", *longer], cwd, code=1)
            assert "cannot be written" in one_line(result), f"wrong: {result.stderr}"
            run(longer, cwd, code=0)


@fault("a disk with so little room that a save does not fit (root only)", tries=4, full=20)
def little_disk_space(outcome, folder, tries, seed):
    """On a file system of some MB the newest complete checkpoint remains, and the next start resumes it."""
    if os.geteuid():
        return
    for number in range(tries):
        with outcome.attempt():
            cwd = folder / str(number)
            (cwd / "run").mkdir(parents=True)
            size = 100 + 7000 * number  # KB; a checkpoint has about 4,000
            # copy the complete checkpoints before the mount is removed with its namespace
            mount = f'mount -t tmpfs -o size={size}k full run && "$@"; code=$?; cp -r run out; exit $code'
            line = command(2, "pg_mpi.train", "--run-dir", "run", *RUN, "--checkpoint-every", 1)
            result = run(["unshare", "--mount", "sh", "-c", mount, "sh", *line], cwd)
            if result.returncode != 0:
                assert result.returncode == 75, f"wrong: exit {result.returncode} {result.stderr}"
                assert "cannot be written" in one_line(result), f"wrong: {result.stderr}"
            with outcome.recovery():
                run(command(2, "pg_mpi.train", "--run-dir", "out", *RUN), cwd, code=0)
            assert not list((cwd / "out").rglob("*.tmp")), "wrong: a temporary file remains"


@fault("a full /dev/shm (root only)", tries=2)
def full_shm(outcome, folder, tries, seed):
    if os.geteuid():
        return
    for number in range(tries):
        with outcome.attempt():
            line = command(2, "pg_mpi.train", "--run-dir", f"run-{number}", *RUN)
            mount = 'mount -t tmpfs -o size=4k full /dev/shm && exec "$@"'
            result = run(["unshare", "--mount", "sh", "-c", mount, "sh", *line], folder)
            assert result.returncode == 0 or "pg_mpi: error" in result.stderr or "shm" in result.stderr, (
                f"wrong: exit {result.returncode} {result.stderr}"
            )
            run(line, folder, code=0)


@fault("a wall clock that jumps back", tries=1)
def backward_clock(outcome, folder, tries, seed):
    """A stub of ``time.time`` goes back by one hour at each call."""
    code = (
        "import time, runpy, sys; real = time.time; calls = [0]\n"
        "def back():\n calls[0] += 1\n return real() - 3600 * calls[0]\n"
        "time.time = back; sys.argv = ['train', *sys.argv[1:]]; runpy.run_module('pg_mpi.train', run_name='__main__')"
    )
    for _ in range(tries):
        with outcome.attempt():
            line = [*mpirun_command(2), sys.executable, "-c", code, "--run-dir", "run", *map(str, RUN)]
            run(line, folder, code=0)


@fault("little memory: starts of a run under address-space limits", tries=8, full=120)
def little_memory(outcome, folder, tries, seed):
    """One line or success. Below some 330 MB the MPI library or numpy does not start, and says so itself."""
    line = [sys.executable, "-m", "pg_mpi.train", "--run-dir"]
    run([*line, "run", "--total-timesteps", "1000"], folder, code=0)
    content = newest(folder)[1]
    for number, limit in enumerate(np.linspace(200, 560, tries)):
        with outcome.attempt():
            name = f"run-{number}"
            shutil.copytree(folder / "run", folder / name)
            under = ["sh", "-c", f'ulimit -v {int(1024 * limit)}; exec "$@"', "sh"]
            result = run([*under, *line, name, "--total-timesteps", "2000"], folder)
            assert not list((folder / name).rglob("*.damaged*")), f"lost: {limit:.0f} MB: a good file is set aside"
            assert content in [path.read_bytes() for path in (folder / name).rglob("*.npz")], "lost: the checkpoint"
            if "pg_mpi: error: " in result.stderr:
                assert result.returncode == 1 and "out of memory" in one_line(result)
            shutil.rmtree(folder / name)
