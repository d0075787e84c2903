"""Odd places: two trainers in one folder, strange names, no home, a full /dev/shm."""

import os
import sys
import time

from jobs import STEPS, command, end, finish, one_line, run, start
from outcome import fault

from pg_mpi.mpi.launch.mpirun import mpirun_command

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
            launcher = [sys.executable, "-m", "pg_mpi.mpi.launch", "-n", "2", "--", "pg_mpi.train"]
            result = run([*words, *launcher, "--run-dir", f"run-{number}", *map(str, RUN)], folder)
            assert result.returncode == 0, f"wrong: {result.stderr}"


@fault("a run folder, or all but it, that cannot be written (root only)", tries=4)
def read_only(tally, folder, tries, seed):
    """Mounted so: root may write where modes forbid it. In an old run, and where there was none."""
    if os.geteuid():
        return
    for number in range(tries):
        with tally.trying():
            place = folder / str(number)
            place.mkdir()
            line = command(2, "pg_mpi.train", "--run-dir", "run", *RUN)
            if number % 2:
                assert run(line, place).returncode == 0
            more = [*line, "--total-timesteps", "2000"]
            locked = 'mount --bind . . && mount -o remount,bind,ro . && cd "$PWD" && exec "$@"'
            with tally.recovering():
                result = run(["unshare", "--mount", "sh", "-c", locked, "sh", *more], place)
            assert result.returncode in (1, 2), f"wrong: exit {result.returncode} {result.stderr}"
            assert "cannot be written" in one_line(result), f"wrong: {result.stderr}"
            assert run(more, place).returncode == 0, "wrong: it does not go on"


@fault("a disk with so little room that a save does not fit (root only)", tries=4, full=20)
def little_room(tally, folder, tries, seed):
    """A real file system, of some MB: the newest checkpoint that fitted is there, and the next start goes on."""
    if os.geteuid():
        return
    for number in range(tries):
        with tally.trying():
            place = folder / str(number)
            (place / "run").mkdir(parents=True)
            size = 100 + 7000 * number  # KB, where a checkpoint has some 4,000
            # the checkpoints that fitted are copied out before the mount goes with its namespace
            room = f'mount -t tmpfs -o size={size}k full run && "$@"; code=$?; cp -r run out; exit $code'
            line = command(2, "pg_mpi.train", "--run-dir", "run", *RUN, "--checkpoint-every", 1)
            result = run(["unshare", "--mount", "sh", "-c", room, "sh", *line], place)
            if result.returncode != 0:
                assert result.returncode in (1, 2), f"wrong: exit {result.returncode} {result.stderr}"
                assert "cannot be written" in one_line(result), f"wrong: {result.stderr}"
            with tally.recovering():
                again = run(command(2, "pg_mpi.train", "--run-dir", "out", *RUN), place)
            assert again.returncode == 0, f"wrong: exit {again.returncode} {again.stderr}"
            assert not list((place / "out").rglob("*.tmp")), "wrong: half a file is left"


@fault("starts that come to nothing", tries=3, full=10)
def restart_loop(tally, folder, tries, seed):
    """A walltime shorter than the first update, as a batch system would try for ever."""
    for number in range(tries):
        with tally.trying():
            line = command(1, "pg_mpi.train", "--run-dir", f"run-{number}", "--max-frames", 400, "--idle-starts", 3)
            codes = []
            while (result := run([*line, "--max-walltime", "0.1"], folder)).returncode == 75:
                codes.append(result.returncode)
                assert len(codes) < 5, "hung: it goes on for ever"
            assert codes == [75] * 3 and result.returncode == 2, f"wrong: {codes}, then {result.returncode}"
            assert "saved nothing after 0 steps" in one_line(result)


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
