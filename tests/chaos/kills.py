"""Killed at any moment: during saves, and the whole job."""

import os
import random
import signal
import time

import numpy as np
from jobs import STEPS, command, deterministic, end, finish, newest, run, start
from outcome import fault

from pg_mpi.config.errors import CheckpointError
from pg_mpi.files import checkpoint_file

RUN = ["--hidden", 16, "--update-epochs", 2, *STEPS, "--checkpoint-every", 1, "--seed", 3]
POLITE = (signal.SIGTERM, signal.SIGINT)
LONG = ["--total-timesteps", 2 * 128 * 60]


@fault("kill -9 at a random moment of saves", tries=200, full=1000)
def during_saves(tally, folder, tries, seed):
    """A child saves one checkpoint after the other and tells of each; a kill finds it anywhere."""
    rng = random.Random(seed)
    for number in range(tries):
        with tally.trying():
            place = folder / str(number)
            acknowledged = _killed_child(place, rng.uniform(0, 0.08))
            with tally.recovering():
                found = checkpoint_file.load_newest(str(place), lambda line: None)
            if found is None:
                assert acknowledged < 0, f"lost: update {acknowledged} was acknowledged, and nothing is there"
                continue
            _, arrays, facts = found
            assert facts["update"] >= acknowledged, f"lost: {acknowledged} acknowledged, {facts['update']} there"
            assert (arrays["theta"] == facts["update"]).all(), "wrong weights"


def _killed_child(place, delay):
    """Fork a child that saves until it is killed; the last save that it told of, -1 if none."""
    theta = np.zeros(300_000, dtype=np.float32)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        for update in range(10_000):
            theta[:] = update
            checkpoint_file.save(
                checkpoint_file.path_of(str(place / "checkpoints"), update), {"theta": theta}, {"update": update}
            )
            os.write(writing, update.to_bytes(4, "little"))
        os._exit(0)
    os.close(writing)
    time.sleep(delay)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    told = b""
    while piece := os.read(reading, 65536):
        told += piece
    os.close(reading)
    return int.from_bytes(told[-4:], "little") if told else -1


@fault("kill -9 of the whole mpirun job at a random moment", tries=12, full=100)
def whole_job(tally, folder, tries, seed):
    """Killed and started again until it is done: the bits of a run that nobody touched."""
    _again_and_again(tally, folder, tries, seed, lambda job, rng: end(job))


@fault("TERM or INT to mpirun, which kills its ranks soon after", tries=6, full=40)
def politely(tally, folder, tries, seed):
    """As the job is killed, or saves before that: it may exit with 75."""
    _again_and_again(tally, folder, tries, seed, lambda job, rng: job.send_signal(rng.choice(POLITE)))


def _again_and_again(tally, folder, tries, seed, stop):
    rng = random.Random(seed)
    done = run(command(2, "pg_mpi.train", "--run-dir", "whole", *RUN, *LONG), folder)
    assert done.returncode == 0, done.stderr
    line = command(2, "pg_mpi.train", "--run-dir", "run", *RUN, *LONG)
    known = 0
    while tally.tries < tries:
        with tally.trying():
            job = start(line, folder)
            time.sleep(rng.uniform(0.5, 5))
            stop(job, rng)
            finish(job)
            known = _no_step_back(folder, known)
            if (folder / "run/DONE").exists():
                _same(folder)
                (folder / "run").rename(folder / f"run-{tally.tries}")
                known = 0
    with tally.trying(), tally.recovering():
        result = run(line, folder)
        assert result.returncode == 0, f"wrong: exit {result.returncode} {result.stderr}"
        _same(folder)


def _no_step_back(folder, known):
    """The update of the newest good checkpoint, which must not be before ``known``."""
    try:
        found = checkpoint_file.load_newest(str(folder / "run"), lambda line: None)
    except CheckpointError as error:
        raise AssertionError(f"lost: {error}") from None
    update = found[2]["counters"]["update"] if found else 0
    assert update >= known, f"lost: update {known} was saved, {update} is there"
    return update


def _same(folder):
    assert newest(folder, "run")[1] == newest(folder, "whole")[1], "wrong: other bits than in one go"
    assert deterministic(folder, "run") == deterministic(folder, "whole"), "wrong: other metrics than in one go"
