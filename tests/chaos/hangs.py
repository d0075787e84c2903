"""A rank that fails or hangs: the whole job ends within seconds."""

import itertools
import sys
import time

from jobs import STEPS, finish, start
from outcome import FAULTY, fault, gone

from pg_mpi.mpi.launch.mpirun import mpirun_command

WATCHDOG = 3


def _check_end_of_job(outcome, folder, tries, faults, limit, message):
    for number, plan in zip(range(tries), itertools.cycle(faults)):
        with outcome.attempt():
            cwd = folder / str(number)
            flags = ["--run-dir", "run", "--hidden", "16", *STEPS, "--watchdog", str(WATCHDOG)]
            job = start([*mpirun_command(3), sys.executable, FAULTY, plan, *flags], cwd)
            ended = finish(job, 60)
            delay = time.time() - (cwd / "run/metrics.jsonl").stat().st_mtime
            gone(job.pid)
            outcome.worst = max(outcome.worst, delay)
            assert ended.returncode not in (0, 75), f"wrong: exit {ended.returncode} after {plan}"
            assert message in ended.stderr, f"wrong: {plan}: {ended.stderr}"
            assert delay <= limit, f"hung: {delay:.1f} s after {plan}"


@fault("exception, sys.exit, os._exit, SEGV, KILL or ABRT on a rank", tries=12, full=60)
def failed_rank(outcome, folder, tries, seed):
    faults = ("raise", "exit", "exit0", "exit_hard", "SIGSEGV", "SIGKILL", "SIGABRT")
    _check_end_of_job(outcome, folder, tries, faults, 5.0, "rank 1")


@fault("a rank stopped, or in an endless loop (watchdog of 3 s)", tries=6, full=30)
def hanging_rank(outcome, folder, tries, seed):
    _check_end_of_job(
        outcome, folder, tries, ("SIGSTOP", "loop", "greedy loop"), WATCHDOG + 2.0, "saw no update end for 3 s"
    )
