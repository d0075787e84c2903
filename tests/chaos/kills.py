"""Kill a process during saves, and the whole job at a random moment."""

import os
import random
import signal
import time

import numpy as np
from jobs import STEPS, command, deterministic, end, finish, run, start
from outcome import check_equal, fault, train_whole

from pg_mpi.config.errors import CheckpointError
from pg_mpi.files import checkpoint_folder

RUN = ["--hidden", 16, "--update-epochs", 2, *STEPS, "--checkpoint-every", 1, "--seed", 3]
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
LONG = ["--total-timesteps", 2 * 128 * 60]


@fault("kill -9 at a random moment of saves", tries=200, full=1000)
def kill_during_saves(outcome, folder, tries, seed):
    """A child process saves checkpoints and acknowledges each. It is killed at a random moment."""
    rng = random.Random(seed)
    for number in range(tries):
        with outcome.attempt():
            cwd = folder / str(number)
            acknowledged = _killed_child(cwd, rng.uniform(0, 0.08))
            with outcome.recovery():
                found = checkpoint_folder.load_newest(str(cwd), lambda line: None)
            if found is None:
                assert acknowledged < 0, f"lost: update {acknowledged} was acknowledged, but there is no checkpoint"
                continue
            _, arrays, facts = found
            assert facts["update"] >= acknowledged, (
                f"lost: update {acknowledged} was acknowledged, but the newest is {facts['update']}"
            )
            assert (arrays["theta"] == facts["update"]).all(), "wrong weights"


def _killed_child(cwd, delay):
    """Fork a child that saves until it is killed. Returns its last acknowledged update, -1 if none."""
    theta = np.zeros(300_000, dtype=np.float32)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        for update in range(10_000):
            theta[:] = update
            checkpoint_folder.save(
                checkpoint_folder.path_of(str(cwd / "checkpoints"), update), {"theta": theta}, {"update": update}
            )
            os.write(writing, update.to_bytes(4, "little"))
        os._exit(0)
    os.close(writing)
    time.sleep(delay)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    received = b""
    while piece := os.read(reading, 65536):
        received += piece
    os.close(reading)
    return int.from_bytes(received[-4:], "little") if received else -1


@fault("kill -9 of the whole mpirun job at a random moment", tries=12, full=100)
def kill_whole_job(outcome, folder, tries, seed):
    """A run that is killed and restarted until it is finished equals an uninterrupted run."""
    _interrupt_and_restart(outcome, folder, tries, seed, lambda job, rng: end(job))


@fault("TERM or INT to mpirun, which kills its ranks soon after", tries=6, full=40)
def signal_whole_job(outcome, folder, tries, seed):
    """The job is killed, or saves first and exits with 75."""
    _interrupt_and_restart(outcome, folder, tries, seed, lambda job, rng: job.send_signal(rng.choice(STOP_SIGNALS)))


def _interrupt_and_restart(outcome, folder, tries, seed, stop):
    rng = random.Random(seed)
    train_whole(folder, 2, *RUN, *LONG)
    line = command(2, "pg_mpi.train", "--run-dir", "run", *RUN, *LONG)
    known = 0
    while outcome.tries < tries:
        with outcome.attempt():
            job = start(line, folder)
            time.sleep(rng.uniform(0.5, 5))
            stop(job, rng)
            finish(job)
            known = _update_of_newest(folder, known)
            if (folder / "run/DONE").exists():
                _check_equal_to_whole(folder)
                (folder / "run").rename(folder / f"run-{outcome.tries}")
                known = 0
    with outcome.attempt(), outcome.recovery():
        run(line, folder, code=0)
        _check_equal_to_whole(folder)


def _update_of_newest(folder, known):
    """Return the update of the newest usable checkpoint. Fails if it is before ``known``."""
    try:
        found = checkpoint_folder.load_newest(str(folder / "run"), lambda line: None)
    except CheckpointError as error:
        raise AssertionError(f"lost: {error}") from None
    update = found[2]["counters"]["update"] if found else 0
    assert update >= known, f"lost: update {known} was saved, but the newest is {update}"
    return update


def _check_equal_to_whole(folder):
    check_equal(folder, "run")
    assert deterministic(folder, "run") == deterministic(folder, "whole"), (
        "wrong: the metrics differ from the uninterrupted run"
    )
