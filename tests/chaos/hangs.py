"""One rank that fails, dies or hangs: the whole job is gone within seconds."""

import itertools
import sys
import time

from jobs import STEPS, finish, start
from outcome import FAULTY, fault, gone

from pg_mpi.mpi.launch.mpirun import mpirun_command

WATCHDOG = 3


def _ends(tally, folder, tries, faults, limit, says):
    for number, plan in zip(range(tries), itertools.cycle(faults)):
        with tally.trying():
            place = folder / str(number)
            place.mkdir()
            flags = ["--run-dir", "run", "--hidden", "16", *STEPS, "--watchdog", str(WATCHDOG)]
            job = start([*mpirun_command(3), sys.executable, FAULTY, plan, *flags], place)
            ended = finish(job, 60)
            late = time.time() - (place / "run/metrics.jsonl").stat().st_mtime
            gone(job.pid)
            tally.worst = max(tally.worst, late)
            assert ended.returncode not in (0, 75), f"wrong: exit {ended.returncode} after {plan}"
            assert says in ended.stderr, f"wrong: {plan}: {ended.stderr}"
            assert late <= limit, f"hung: {late:.1f} s after {plan}"


@fault("exception, sys.exit, os._exit, SEGV, KILL or ABRT on a rank", tries=12, full=60)
def dies(tally, folder, tries, seed):
    faults = ("raise", "exit", "exit0", "exit_hard", "SIGSEGV", "SIGKILL", "SIGABRT")
    _ends(tally, folder, tries, faults, 5.0, "rank 1")


@fault("a rank stopped, or in an endless loop (watchdog of 3 s)", tries=6, full=30)
def hangs(tally, folder, tries, seed):
    _ends(tally, folder, tries, ("SIGSTOP", "loop", "greedy loop"), WATCHDOG + 2.0, "saw no update end for 3 s")
