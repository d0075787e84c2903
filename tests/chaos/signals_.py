"""Signals and walltimes at random moments and in each phase."""

import itertools
import random
import signal
import sys
import time

from jobs import STEPS, command, finish, metrics, run, start
from outcome import FAULTY, check_equal, fault, gone, train_whole

from pg_mpi.mpi.launch.mpirun import mpirun_command

RUN = ["--hidden", 16, "--update-epochs", 2, *STEPS, "--checkpoint-every", 5, "--seed", 6]
LONG = ["--total-timesteps", 2 * 128 * 60]


@fault("USR1 at any moment, now and then twice", tries=10, full=60)
def usr1_at_any_moment(outcome, folder, tries, seed):
    rng = random.Random(seed)
    train_whole(folder, 2, *RUN, *LONG)
    number = 0
    while outcome.tries < tries:
        with outcome.attempt():
            name = f"run-{number}"
            lock = folder / name / "lock"
            before = lock.stat().st_mtime_ns if lock.exists() else None
            job = start(command(2, "pg_mpi.train", "--run-dir", name, *RUN, *LONG), folder)
            _wait_for_lock(lock, before, job)
            time.sleep(rng.uniform(0, 3))
            with outcome.recovery():
                job.send_signal(signal.SIGUSR1)
                if rng.random() < 0.3:
                    time.sleep(rng.uniform(0, 0.3))
                    job.send_signal(signal.SIGUSR1)
                ended = finish(job, 30)
            gone(job.pid)
            assert ended.returncode in (0, 75), f"wrong: exit {ended.returncode} {ended.stderr}"
            if ended.returncode == 0:
                check_equal(folder, name)
                number += 1
    with outcome.attempt():
        run(command(2, "pg_mpi.train", "--run-dir", f"run-{number}", *RUN, *LONG), folder, code=0)
        check_equal(folder, f"run-{number}")


def _wait_for_lock(lock, before, job):
    """Wait until this job has written the lock. Before that USR1 kills it, because its handler is not installed."""
    deadline = time.monotonic() + 30
    while job.poll() is None and (not lock.exists() or lock.stat().st_mtime_ns == before):
        assert time.monotonic() < deadline, "hung: no run folder"
        time.sleep(0.02)


PHASES = ("wait", "allreduce", "gradient", "optimizer", "inference", "record")


@fault("USR1 in each phase of an update, once or twice, and in a save", tries=12, full=36)
def usr1_in_each_phase(outcome, folder, tries, seed):
    """Signals to one rank. For the phases of the emulator loop see tests/unit/test_stop.py."""
    flags = ["--total-timesteps", 2 * 128 * 4, "--checkpoint-every", 1]
    train_whole(folder, 2, *RUN, *flags)
    for number, (phase, count) in zip(range(tries), itertools.cycle(itertools.product(PHASES, (1, 2)))):
        with outcome.attempt():
            args = ["--run-dir", f"run-{number}", *RUN, *flags]
            line = [*mpirun_command(2), sys.executable, FAULTY, f"signal:{phase},{count}", *map(str, args)]
            with outcome.recovery():
                ended = run(line, folder, limit=60)
            assert ended.returncode == 75, f"wrong: exit {ended.returncode} in {phase} {ended.stderr}"
            updates = len(metrics(folder, f"run-{number}"))
            assert 1 <= updates <= 2, f"wrong: {updates} updates, signalled in {phase} of the second"
            run(command(2, "pg_mpi.train", *args), folder, code=0)
            check_equal(folder, f"run-{number}")


@fault("walltimes of any length", tries=6, full=30)
def random_walltimes(outcome, folder, tries, seed):
    rng = random.Random(seed)
    train_whole(folder, 2, *RUN, *LONG)
    number = 0
    while outcome.tries < tries:
        with outcome.attempt():
            name, limit = f"run-{number}", rng.uniform(0.5, 6)
            line = command(2, "pg_mpi.train", "--run-dir", name, *RUN, *LONG, "--max-walltime", f"{limit:.2f}")
            with outcome.recovery():
                ended = run(line, folder, limit=limit + 20)
            assert ended.returncode in (0, 75), f"wrong: exit {ended.returncode} {ended.stderr}"
            if ended.returncode == 0:
                check_equal(folder, name)
                number += 1
