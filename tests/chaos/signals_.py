"""Signals and walltimes at any moment."""

import itertools
import random
import signal
import sys
import time

from jobs import STEPS, command, finish, metrics, newest, run, start
from outcome import FAULTY, fault, gone

from pg_mpi.mpi.launch.mpirun import mpirun_command

RUN = ["--hidden", 16, "--update-epochs", 2, *STEPS, "--checkpoint-every", 5, "--seed", 6]
LONG = ["--total-timesteps", 2 * 128 * 60, "--idle-starts", 0]  # on a busy machine many signals in a row come too early


def _same(folder, name):
    assert newest(folder, name)[1] == newest(folder, "whole")[1], "wrong: other bits than in one go"


@fault("USR1 at any moment, now and then twice", tries=10, full=60)
def usr1(tally, folder, tries, seed):
    rng = random.Random(seed)
    whole = run(command(2, "pg_mpi.train", "--run-dir", "whole", *RUN, *LONG), folder)
    assert whole.returncode == 0, whole.stderr
    number = 0
    while tally.tries < tries:
        with tally.trying():
            name = f"run-{number}"
            lock = folder / name / "lock"
            before = lock.stat().st_mtime_ns if lock.exists() else None
            job = start(command(2, "pg_mpi.train", "--run-dir", name, *RUN, *LONG), folder)
            _wait_for_its(lock, before, job)
            time.sleep(rng.uniform(0, 3))
            with tally.recovering():
                job.send_signal(signal.SIGUSR1)
                if rng.random() < 0.3:
                    time.sleep(rng.uniform(0, 0.3))
                    job.send_signal(signal.SIGUSR1)
                ended = finish(job, 30)
            gone(job.pid)
            assert ended.returncode in (0, 75), f"wrong: exit {ended.returncode} {ended.stderr}"
            if ended.returncode == 0:
                _same(folder, name)
                number += 1
    with tally.trying():
        result = run(command(2, "pg_mpi.train", "--run-dir", f"run-{number}", *RUN, *LONG), folder)
        assert result.returncode == 0, f"wrong: exit {result.returncode} {result.stderr}"
        _same(folder, f"run-{number}")


def _wait_for_its(lock, before, job):
    """Until this job has written the lock: USR1 kills a program that has not asked for it, as ours does first."""
    until = time.monotonic() + 30
    while job.poll() is None and (not lock.exists() or lock.stat().st_mtime_ns == before):
        assert time.monotonic() < until, "hung: no run folder"
        time.sleep(0.02)


PHASES = ("wait", "allreduce", "gradient", "optimizer", "inference", "record")


@fault("USR1 in each phase of an update, once or twice, and in a save", tries=12, full=36)
def in_each_phase(tally, folder, tries, seed):
    """To one rank alone; in the others, which the emulator's loop is made of, at any step: tests/unit/test_stop.py."""
    rest = ["--total-timesteps", 2 * 128 * 4, "--checkpoint-every", 1]
    whole = run(command(2, "pg_mpi.train", "--run-dir", "whole", *RUN, *rest), folder)
    assert whole.returncode == 0, whole.stderr
    for number, (phase, count) in zip(range(tries), itertools.cycle(itertools.product(PHASES, (1, 2)))):
        with tally.trying():
            flags = ["--run-dir", f"run-{number}", *RUN, *rest]
            line = [*mpirun_command(2), sys.executable, FAULTY, f"signal:{phase},{count}", *map(str, flags)]
            with tally.recovering():
                ended = run(line, folder, limit=60)
            assert ended.returncode == 75, f"wrong: exit {ended.returncode} in {phase} {ended.stderr}"
            updates = len(metrics(folder, f"run-{number}"))
            assert 1 <= updates <= 2, f"wrong: {updates} updates, signalled in {phase} of the second"
            again = run(command(2, "pg_mpi.train", *flags), folder)
            assert again.returncode == 0, f"wrong: exit {again.returncode} {again.stderr}"
            _same(folder, f"run-{number}")


@fault("walltimes of any length", tries=6, full=30)
def walltimes(tally, folder, tries, seed):
    rng = random.Random(seed)
    whole = run(command(2, "pg_mpi.train", "--run-dir", "whole", *RUN, *LONG), folder)
    assert whole.returncode == 0, whole.stderr
    number = 0
    while tally.tries < tries:
        with tally.trying():
            name, limit = f"run-{number}", rng.uniform(0.5, 6)
            line = command(2, "pg_mpi.train", "--run-dir", name, *RUN, *LONG, "--max-walltime", f"{limit:.2f}")
            with tally.recovering():
                ended = run([*line, "--idle-starts", "0"], folder, limit=limit + 20)
            assert ended.returncode in (0, 75), f"wrong: exit {ended.returncode} {ended.stderr}"
            if ended.returncode == 0:
                _same(folder, name)
                number += 1
