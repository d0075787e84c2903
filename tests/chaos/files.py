"""Damaged checkpoints of a resumed run, thousands of damaged files, and full disks."""

import os
import random
import shutil
import sys
from pathlib import Path

import numpy as np
from jobs import STEPS, command, newest, one_line, run
from outcome import FAULTY, check_equal, fault

from pg_mpi.config.errors import CheckpointError
from pg_mpi.files import checkpoint_file, checkpoint_folder
from pg_mpi.mpi.launch.mpirun import mpirun_command

RUN = ["--hidden", 16, "--update-epochs", 2, *STEPS, "--checkpoint-every", 2, "--seed", 4]
HALF, WHOLE = (["--total-timesteps", 2 * 128 * updates] for updates in (8, 14))


def _train(folder, name, *flags):
    return run(command(2, "pg_mpi.train", "--run-dir", name, *RUN, *flags), folder, code=0)


def _damage(path, kind, rng):
    content = bytearray(Path(path).read_bytes())
    if kind == "a folder":
        os.remove(path)
        return os.mkdir(path)
    if kind == "flipped":
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        content[len(content) // 2] ^= 1
    if kind == "cut short":
        del content[rng.randrange(len(content)) :]
    if kind == "zeroed":
        content = bytes(len(content))
    with open(path, "wb") as file:
        file.write(content)


@fault("newest checkpoint flipped, cut short, zeroed or a folder", tries=8, full=40)
def damaged_newest_checkpoint(outcome, folder, tries, seed):
    rng = random.Random(seed)
    _train(folder, "whole", *WHOLE)
    _train(folder, "half", *HALF)
    for number in range(tries):
        with outcome.attempt():
            name = f"run-{number}"
            shutil.copytree(folder / "half", folder / name)
            _damage(newest(folder, name)[0], ("flipped", "cut short", "zeroed", "a folder")[number % 4], rng)
            with outcome.recovery():
                result = _train(folder, name, *WHOLE)
            assert result.stderr.count("is not a usable checkpoint") == 1, f"wrong: no warning {result.stderr}"
            check_equal(folder, name)


@fault("no good checkpoint left", tries=2)
def no_usable_checkpoint(outcome, folder, tries, seed):
    rng = random.Random(seed)
    _train(folder, "run", *HALF)
    for path in checkpoint_folder.candidates(str(folder / "run")):
        _damage(path, "cut short", rng)
    for _ in range(tries):
        with outcome.attempt():
            result = run(command(2, "pg_mpi.train", "--run-dir", "run", *RUN, *WHOLE), folder, code=2)
            assert "no usable checkpoint" in one_line(result)


@fault("damaged checkpoint files", tries=2000, full=10_000)
def fuzz_checkpoint_files(outcome, folder, tries, seed):
    """A damaged file is loaded with its original content, or raises ``CheckpointError``."""
    from unit.test_hostile import damage

    _train(folder, "run", *HALF)
    path, content = newest(folder, "run")
    _, facts = checkpoint_file.load(path)
    rng = np.random.default_rng(seed)
    for _ in range(tries):
        with outcome.attempt():
            damaged = folder / "damaged.npz"
            damaged.write_bytes(damage(content, rng))
            try:
                found = checkpoint_file.load(str(damaged))[1]
            except CheckpointError:
                continue
            except BaseException as error:
                raise AssertionError(f"wrong: {error!r}") from None
            assert found == facts, "wrong: a damaged file was loaded with other content"


@fault("disk full at any byte of what is written", tries=12, full=60)
def full_disk(outcome, folder, tries, seed):
    """RLIMIT_FSIZE limits the files of rank 0 to a number of bytes. The next start has no limit."""
    rng = random.Random(seed)
    _train(folder, "whole", *WHOLE)
    size = os.path.getsize(newest(folder, "whole")[0])
    for number in range(tries):
        with outcome.attempt():
            limit = int(np.exp(rng.uniform(0, np.log(size)))) if number else 0
            name = f"run-{number}"
            flags = ["--run-dir", name, *map(str, RUN), *map(str, WHOLE)]
            result = run([*mpirun_command(2), sys.executable, FAULTY, f"disk:{limit}", *flags], folder)
            assert result.returncode == 1, f"wrong: exit {result.returncode} with {limit} bytes {result.stderr}"
            assert "cannot be written" in one_line(result)
            with outcome.recovery():
                _train(folder, name, *WHOLE)
            check_equal(folder, name)
