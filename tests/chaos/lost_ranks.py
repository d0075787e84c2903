"""``--elastic``: ranks are killed and the surviving ranks continue."""

import itertools
import os
import queue
import random
import signal
import sys
import threading
import time

from jobs import STEPS, command, end, ranks_of, run, start
from outcome import FAULTY, check_equal, fault, gone, train_whole

from pg_mpi.mpi.launch.mpirun import mpirun_command

RANKS, ENVS = 4, 1
RUN = ["--hidden", 16, "--update-epochs", 2, *STEPS, "--envs-per-rank", ENVS, "--max-frames", 400, "--seed", 8]
RUN += ["--reproducible", "--total-timesteps", RANKS * ENVS * 128 * 40]
RECOVERY_LIMIT = 1.0  # seconds from the kill until the surviving ranks continue
ROUNDS = 4  # until the next kill


@fault("kill -9 of one rank after the other, under --elastic", tries=6, full=51)
def kill_one_by_one(outcome, folder, tries, seed):
    """A job that loses three of its four ranks gives the same checkpoint as one that loses none."""
    rng = random.Random(seed)
    train_whole(folder, RANKS, *RUN)
    number = 0
    while outcome.tries < tries:
        job = _start(folder, f"run-{number}")
        lines = _lines(job)
        alive = dict(enumerate(ranks_of(job))) if _wait_for_line(lines, "update 1", 60) else {}
        for _ in range(RANKS - 1):
            with outcome.attempt():
                time.sleep(rng.uniform(0, 1))
                assert alive, "wrong: the job did not start"
                os.kill(alive.pop(rng.choice(sorted(alive))), signal.SIGKILL)
                begun = time.monotonic()
                assert _wait_for_line(lines, "lost rank", 10), (
                    f"hung: the surviving ranks did not continue, exit {job.poll()}"
                )
                seconds = time.monotonic() - begun
                outcome.worst = max(outcome.worst, seconds)
                assert seconds < RECOVERY_LIMIT, f"hung: {seconds:.2f} s without progress"
                for _ in range(ROUNDS):
                    assert _wait_for_line(lines, "update", 30), "hung: no further update"
        with outcome.attempt():
            assert _wait_for_line(lines, "finished", 90), "hung: the job does not end"
            assert job.wait(10) == 0, f"wrong: exit {job.returncode}"
            check_equal(folder, f"run-{number}")
            gone(job.pid)
        if job.poll() is None:
            end(job)
        number += 1


PHASES = ("wait", "allreduce", "gradient", "optimizer", "inference", "record", "end")


@fault("kill -9 of a rank in each phase, under --elastic", tries=9, full=28)
def kill_in_each_phase(outcome, folder, tries, seed):
    """Kill rank 0 or 1 in a phase of an update, or rank 0 at the end of the run."""
    flags = [*RUN, "--total-timesteps", 3 * 2 * 128 * 4, "--envs-per-rank", 2, "--checkpoint-every", 1, "--trace"]
    train_whole(folder, 3, *flags)
    every = ((phase, (number + turn) % 2) for turn in (0, 1) for number, phase in enumerate(PHASES))
    plans = itertools.cycle([plan for plan in every if plan != ("end", 1)])
    for number, (phase, rank) in zip(range(tries), plans):
        with outcome.attempt():
            mpirun, *options = mpirun_command(3)
            line = [mpirun, "--with-ft", "ulfm", *options, sys.executable, FAULTY, f"kill:{phase},{rank}"]
            with outcome.recovery():
                done = run([*line, "--run-dir", f"run-{number}", *map(str, flags), "--elastic"], folder, limit=60)
            assert done.returncode == 0, f"wrong: exit {done.returncode} after {phase} of {rank} {done.stderr}"
            assert f"lost rank {rank} of 3" in done.stdout, f"wrong: {done.stdout}"
            check_equal(folder, f"run-{number}")


def _start(folder, name):
    mpirun, *options = mpirun_command(RANKS)
    rest = command(RANKS, "pg_mpi.train", "--run-dir", name, *RUN, "--elastic", "--log-interval", "0.01")
    return start([mpirun, "--with-ft", "ulfm", *options, *rest[1 + len(options) :]], folder)


def _lines(job):
    """Return a queue of the lines of standard output. Standard error is discarded."""
    lines = queue.Queue()

    def read(stream, keep):
        for line in stream:
            if keep:
                lines.put(line)

    for stream, keep in ((job.stdout, True), (job.stderr, False)):
        threading.Thread(target=read, args=(stream, keep), daemon=True).start()
    return lines


def _wait_for_line(lines, prefix, seconds):
    """Return True once a line begins with ``prefix``, False after ``seconds``."""
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        try:
            if lines.get(timeout=left).startswith(prefix):
                return True
        except queue.Empty:
            return False
    return False
