"""The faults of a soak, for a job that was started by the launcher."""

import argparse
import contextlib
import os
import signal
import time
from pathlib import Path

from jobs import ranks_of
from outcome import session

from pg_mpi.files import checkpoint_folder
from pg_mpi.mpi.launch import launcher


def mpirun_of(job):
    """Return the process id of the mpirun that a launcher started."""
    return int(Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split()[0])


def kill_session(job):
    """Kill all remaining processes of a job."""
    for leader in (job.pid, getattr(job, "mpirun", job.pid)):
        while session(leader):
            launcher.kill_session(leader)
            time.sleep(0.1)


def ranks_under(job):
    """Return the process ids of a launcher's ranks."""
    return ranks_of(argparse.Namespace(pid=mpirun_of(job)))


def _signal_rank(number):
    return lambda job, folder, rng: os.kill(rng.choice(ranks_under(job)), number)


def _damage(job, folder, rng):
    """Kill the job and damage its newest checkpoint, so that only the one before is usable."""
    mpirun = mpirun_of(job)
    os.kill(mpirun, signal.SIGKILL)
    job.wait(60)
    paths = checkpoint_folder.candidates(str(folder))
    if paths:
        content = bytearray(Path(paths[0]).read_bytes())
        content[rng.randrange(len(content))] ^= 1
        content[len(content) // 2] ^= 1
        Path(paths[0]).write_bytes(content)


def _kill_mpirun_without_ranks(fault):
    """Wrap a fault: if the job has not started its ranks yet, kill its mpirun instead."""

    def wrapped(job, folder, rng):
        try:
            fault(job, folder, rng)
        except (OSError, IndexError):
            with contextlib.suppress(OSError, IndexError):
                os.kill(mpirun_of(job), signal.SIGKILL)

    return wrapped


FAULTS = {
    "rank killed": _kill_mpirun_without_ranks(_signal_rank(signal.SIGKILL)),
    "rank stopped": _kill_mpirun_without_ranks(_signal_rank(signal.SIGSTOP)),
    "rank SEGV": _kill_mpirun_without_ranks(_signal_rank(signal.SIGSEGV)),
    "mpirun killed": _kill_mpirun_without_ranks(lambda job, folder, rng: os.kill(mpirun_of(job), signal.SIGKILL)),
    "launcher killed": lambda job, folder, rng: job.kill(),
    "USR1": lambda job, folder, rng: job.send_signal(signal.SIGUSR1),
    "damaged": _kill_mpirun_without_ranks(_damage),
}
