"""``--elastic``: ranks that are killed, and the others that go on."""

import itertools
import os
import queue
import random
import signal
import sys
import threading
import time

from jobs import STEPS, command, end, newest, ranks_of, run, start
from outcome import FAULTY, fault, gone

from pg_mpi.mpi.launch.mpirun import mpirun_command

RANKS, ENVS = 4, 1
RUN = ["--hidden", 16, "--update-epochs", 2, *STEPS, "--envs-per-rank", ENVS, "--max-frames", 400, "--seed", 8]
RUN += ["--reproducible", "--total-timesteps", RANKS * ENVS * 128 * 40]
AT_ONCE = 1.0  # seconds from the kill until the others have taken over
ROUNDS = 4  # until the next kill: an emulator is made ahead in each, which takes longest


@fault("kill -9 of one rank after the other, under --elastic", tries=6, full=51)
def one_by_one(tally, folder, tries, seed):
    """Each job loses three of its four ranks, and ends with the bits of one that lost none."""
    rng = random.Random(seed)
    whole = run(command(RANKS, "pg_mpi.train", "--run-dir", "whole", *RUN), folder)
    assert whole.returncode == 0, whole.stderr
    number = 0
    while tally.tries < tries:
        job = _start(folder, f"run-{number}")
        said = _lines(job)
        alive = dict(enumerate(ranks_of(job))) if _heard(said, "update 1", 60) else {}
        for _ in range(RANKS - 1):
            with tally.trying():
                time.sleep(rng.uniform(0, 1))
                assert alive, "wrong: it did not start"
                os.kill(alive.pop(rng.choice(sorted(alive))), signal.SIGKILL)
                begun = time.monotonic()
                assert _heard(said, "lost rank", 10), f"hung: nobody took over, exit {job.poll()}"
                took = time.monotonic() - begun
                tally.worst = max(tally.worst, took)
                assert took < AT_ONCE, f"hung: for {took:.2f} s"
                for _ in range(ROUNDS):
                    assert _heard(said, "update", 30), "hung: it does not go on"
        with tally.trying():
            assert _heard(said, "finished", 90), "hung: it does not end"
            assert job.wait(10) == 0, f"wrong: exit {job.returncode}"
            assert newest(folder, f"run-{number}")[1] == newest(folder, "whole")[1], "wrong: other bits"
            gone(job.pid)
        if job.poll() is None:
            end(job)
        number += 1


PHASES = ("wait", "allreduce", "gradient", "optimizer", "inference", "record", "end")


@fault("kill -9 of a rank in each phase, under --elastic", tries=9, full=28)
def in_each_phase(tally, folder, tries, seed):
    """Rank 0 too, and when all is done but that the others hear of it."""
    words = [*RUN, "--total-timesteps", 3 * 2 * 128 * 4, "--envs-per-rank", 2, "--checkpoint-every", 1, "--trace"]
    whole = run(command(3, "pg_mpi.train", "--run-dir", "whole", *words), folder)
    assert whole.returncode == 0, whole.stderr
    plans = ((phase, rank) for rank in itertools.cycle((0, 1)) for phase in PHASES if (phase, rank) != ("end", 1))
    for number, (phase, rank) in zip(range(tries), plans):
        with tally.trying():
            first, *options = mpirun_command(3)
            line = [first, "--with-ft", "ulfm", *options, sys.executable, FAULTY, f"kill:{phase},{rank}"]
            with tally.recovering():
                done = run([*line, "--run-dir", f"run-{number}", *map(str, words), "--elastic"], folder, limit=60)
            assert done.returncode == 0, f"wrong: exit {done.returncode} after {phase} of {rank} {done.stderr}"
            assert f"lost rank {rank} of 3" in done.stdout, f"wrong: {done.stdout}"
            assert newest(folder, f"run-{number}")[1] == newest(folder, "whole")[1], f"wrong: bits, {phase} {rank}"


def _start(folder, name):
    start_word, *options = mpirun_command(RANKS)
    rest = command(RANKS, "pg_mpi.train", "--run-dir", name, *RUN, "--elastic", "--log-interval", "0.01")
    return start([start_word, "--with-ft", "ulfm", *options, *rest[1 + len(options) :]], folder)


def _lines(job):
    """A queue of the lines of standard output; what is said on standard error goes nowhere."""
    said = queue.Queue()

    def read(stream, keep):
        for line in stream:
            if keep:
                said.put(line)

    for stream, keep in ((job.stdout, True), (job.stderr, False)):
        threading.Thread(target=read, args=(stream, keep), daemon=True).start()
    return said


def _heard(said, words, seconds):
    """Whether a line that begins with these words is said within so many seconds."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        try:
            if said.get(timeout=left).startswith(words):
                return True
        except queue.Empty:
            return False
    return False
