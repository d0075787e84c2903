"""Gradients and weights that are not finite, and emulators that fail."""

import random
import sys

import numpy as np
from jobs import STEPS, metrics, one_line, run
from outcome import FAULTY, fault

from pg_mpi.files import checkpoint_file, checkpoint_folder
from pg_mpi.mpi.launch.mpirun import mpirun_command

RUN = ["--run-dir", "run", "--hidden", "16", "--update-epochs", "2", *STEPS, "--checkpoint-every", "2"]


def _faulty(folder, ranks, plan, *flags, code=0):
    return run([*mpirun_command(ranks), sys.executable, FAULTY, plan, *RUN, *flags], folder, code=code)


def _check_no_nan_saved(cwd):
    for path in checkpoint_folder.candidates(str(cwd / "run")):
        assert np.isfinite(checkpoint_file.load(path)[0]["theta"]).all(), "wrong: NaN was saved"


@fault("NaN in one rank's gradient", tries=5, full=20)
def nan_gradients(outcome, folder, tries, seed):
    rng = random.Random(seed)
    for number in range(tries):
        with outcome.attempt():
            cwd = folder / str(number)
            updates = sorted(rng.sample(range(2, 11), 3))
            plan = "nan:" + ",".join(map(str, updates))
            _faulty(cwd, 3, plan, "--total-timesteps", str(12 * 3 * 128), "--sync-check-every", "1")
            counted = [line["skipped_updates"] for line in metrics(cwd)]
            assert counted == [sum(u <= k for u in updates) for k in range(1, 13)], f"wrong: counted {counted}"
            _check_no_nan_saved(cwd)


@fault("NaN in one rank's gradient in every update", tries=2, full=5)
def repeated_nan_gradients(outcome, folder, tries, seed):
    for number in range(tries):
        with outcome.attempt():
            cwd = folder / str(number)
            result = _faulty(cwd, 2, "nan:" + ",".join(map(str, range(4, 50))), code=1)
            assert "not finite in 10 updates in a row" in one_line(result)
            _check_no_nan_saved(cwd)


@fault("NaN in one rank's weights", tries=2, full=5)
def nan_weights(outcome, folder, tries, seed):
    """The gradients of the rank are NaN from then on, and its weights differ from those of the other ranks."""
    for number in range(tries):
        with outcome.attempt():
            cwd = folder / str(number)
            result = _faulty(cwd, 2, "nan_weights", code=1)
            assert "differ from the others'" in result.stderr or "not finite in 10 updates" in result.stderr
            _check_no_nan_saved(cwd)


@fault("emulators that raise in 1 of 2,000 steps", tries=2, full=10)
def failing_emulators(outcome, folder, tries, seed):
    for number in range(tries):
        with outcome.attempt():
            cwd = folder / str(number)
            steps = ["--total-timesteps", str(60 * 2 * 128), "--envs-per-rank", "4", "--seed", str(seed + number)]
            _faulty(cwd, 2, "emulator:0.0005", *steps)
            lines = metrics(cwd)
            counts = [line["emulator_errors"] for line in lines]
            assert counts == sorted(counts) and counts[-1] > 0, f"wrong: counted {counts}"
