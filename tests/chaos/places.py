"""Odd places: two trainers in one folder, strange names, no home, a full /dev/shm."""

import os
import sys
import time

from jobs import STEPS, command, end, finish, one_line, run, start
from outcome import fault

from pg_mpi.cluster.mpirun import mpirun_command

RUN = ["--hidden", 16, "--update-epochs", 2, *STEPS, "--total-timesteps", 2 * 128 * 3]


@fault("two trainers in one run folder", tries=3, full=10)
def two_trainers(tally, folder, tries, seed):
    for number in range(tries):
        with tally.trying():
            line = command(2, "pg_mpi.train", "--run-dir", f"run-{number}", "--hidden", 16, *STEPS)
            first = start(line, folder)
            until = time.monotonic() + 30
            while not (folder / f"run-{number}/metrics.jsonl").exists():
                assert time.monotonic() < until, "hung"
                time.sleep(0.05)
            with tally.recovering():
                second = run(line, folder)
            assert second.returncode == 2 and "is in use by" in one_line(second)
            assert first.poll() is None, "wrong: the first one ended"
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
def odd_names(tally, folder, tries, seed):
    for name in NAMES[:tries]:
        with tally.trying():
            result = run(command(2, "pg_mpi.train", f"--run-dir={name}", *RUN), folder)
            if len(name) > 255:
                assert result.returncode == 2 and "File name too long" in one_line(result)
            else:
                assert result.returncode == 0 and (folder / name / "DONE").exists(), f"wrong: {name} {result.stderr}"


@fault("no HOME, and one that cannot be written", tries=2)
def homes(tally, folder, tries, seed):
    """Through our launcher: Open MPI's mpirun itself ends without a HOME, whatever it was to start."""
    for number, home in zip(range(tries), (None, "/proc")):
        with tally.trying():
            words = ["env", "-u", "HOME"] if home is None else ["env", f"HOME={home}"]
            launcher = [sys.executable, "-m", "pg_mpi.cluster.launch", "-n", "2", "--", "pg_mpi.train"]
            result = run([*words, *launcher, "--run-dir", f"run-{number}", *map(str, RUN)], folder)
            assert result.returncode == 0, f"wrong: {result.stderr}"


@fault("a full /dev/shm (root only)", tries=2)
def full_shm(tally, folder, tries, seed):
    if os.geteuid():
        return
    for number in range(tries):
        with tally.trying():
            line = command(2, "pg_mpi.train", "--run-dir", f"run-{number}", *RUN)
            room = 'mount -t tmpfs -o size=4k full /dev/shm && exec "$@"'
            result = run(["unshare", "--mount", "sh", "-c", room, "sh", *line], folder)
            assert result.returncode == 0 or "pg_mpi: error" in result.stderr or "shm" in result.stderr, (
                f"wrong: exit {result.returncode} {result.stderr}"
            )


@fault("a wall clock that jumps back", tries=1)
def clock(tally, folder, tries, seed):
    """``time.time`` and with it all dates go back an hour at each call; a stand-in for the system's clock."""
    code = (
        "import time, runpy, sys; real = time.time; calls = [0]\n"
        "def back():\n calls[0] += 1\n return real() - 3600 * calls[0]\n"
        "time.time = back; sys.argv = ['train', *sys.argv[1:]]; runpy.run_module('pg_mpi.train', run_name='__main__')"
    )
    for _ in range(tries):
        with tally.trying():
            line = [*mpirun_command(2), sys.executable, "-c", code, "--run-dir", "run", *map(str, RUN)]
            result = run(line, folder)
            assert result.returncode == 0, f"wrong: {result.stderr}"
