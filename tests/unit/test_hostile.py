"""Damaged and forged checkpoints raise CheckpointError, use little memory and execute no code."""

import json
import os
import shutil
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

from pg_mpi.config.command_line import parse_train
from pg_mpi.config.errors import CheckpointError, UsageError
from pg_mpi.files import checkpoint_file, checkpoint_folder
from pg_mpi.files.run_folder import RunFolder
from pg_mpi.mpi.world import World
from pg_mpi.run import saved_run
from pg_mpi.run.trainer import Trainer

ARGS = ["--envs-per-rank", "2", "--hidden", "8", "--sync", "steps", "--num-steps", "32", "--minibatch-size", "64"]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Return arrays and facts of a run's checkpoint, and the bytes of its file."""
    folder = tmp_path_factory.mktemp("run")
    trainer = Trainer(World(), *parse_train(["--run-dir", str(folder), *ARGS]))
    trainer.save()
    (path,) = checkpoint_folder.candidates(str(folder))
    with open(path, "rb") as file:
        return *checkpoint_file.load(path), file.read()


def resume(path, folder):
    """Start a trainer that resumes from a checkpoint."""
    Trainer(World(), *parse_train(["--run-dir", str(folder), "--resume", str(path), *ARGS]))


def damage(content, rng):
    """Damage the bytes of a file in one of five ways."""
    damaged, kind = bytearray(content), rng.integers(5)
    if kind == 0:
        for at in rng.integers(0, len(damaged), rng.integers(1, 20)):
            damaged[at] ^= 1 << rng.integers(8)
    elif kind == 1:
        del damaged[rng.integers(len(damaged)) :]
    elif kind == 2:
        at, size = rng.integers(len(damaged)), rng.integers(1, 5000)
        damaged[at : at + size] = bytes(len(damaged[at : at + size]))
    elif kind == 3:  # in the zip directory at the end, or in the first header: names, sizes and shapes
        at = rng.integers(-900, 0) if rng.random() < 0.5 else rng.integers(200)
        damaged[at] = rng.integers(256)
    else:
        a, b = np.sort(rng.integers(0, len(damaged), 2))
        damaged[a:b] = damaged[a:b][::-1]
    return bytes(damaged)


def test_damaged_files_are_refused_with_little_memory(tmp_path, saved):
    _, facts, content = saved
    path, rng = tmp_path / "step.npz", np.random.default_rng(0)
    refused = peak = 0
    tracemalloc.start()
    for _ in range(400):
        path.write_bytes(damage(content, rng))
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        try:
            assert checkpoint_file.load(str(path))[1] == facts, "a file with changed content is loaded"
        except CheckpointError as error:
            assert "\n" not in str(error)
            refused += 1
        peak = max(peak, tracemalloc.get_traced_memory()[1] - before)
    tracemalloc.stop()
    assert refused > 200 and peak < 2 * len(content)


@pytest.mark.parametrize(
    "shape, dtype",
    [((10**12,), "<f4"), ((2**40, 2**40), "<f4"), ((-5,), "<f4"), ((3,), "|O"), ((3,), "<U9"), ((3,), "<c8")],
)
def test_forged_array_header_uses_little_memory(tmp_path, shape, dtype):
    path = tmp_path / "forged.npz"
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}}}".ljust(117) + "\n"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(
            "theta.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + bytes(12)
        )
    tracemalloc.start()
    with pytest.raises(CheckpointError):
        checkpoint_file.load(str(path))
    assert tracemalloc.get_traced_memory()[1] < 10**6
    tracemalloc.stop()


def test_named_pipe_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe.npz")
    with pytest.raises(CheckpointError, match="not a file"):
        checkpoint_file.load(str(tmp_path / "pipe.npz"))


FORGED = {
    "no theta": lambda arrays, facts: arrays.pop("theta"),
    "theta of another size": lambda arrays, facts: arrays.update(theta=arrays["theta"][:-1]),
    "theta of another shape": lambda arrays, facts: arrays.update(theta=arrays["theta"][None]),
    "theta of integers": lambda arrays, facts: arrays.update(theta=arrays["theta"].astype(np.int64)),
    "no optimizer": lambda arrays, facts: arrays.pop("optimizer"),
    "backgrounds of another screen": lambda arrays, facts: arrays.update(backgrounds=arrays["backgrounds"][:, :7]),
    "no backgrounds": lambda arrays, facts: arrays.update(backgrounds=arrays["backgrounds"][:0]),
    "a truncated emulator": lambda arrays, facts: arrays.update(emulators=arrays["emulators"][:-100]),
    "invalid emulator sizes": lambda arrays, facts: arrays.update(emulator_sizes=np.array([-1, 10**9])),
    "encoder of one env only": lambda arrays, facts: arrays.update(encoder_sizes=arrays["encoder_sizes"][:1]),
    "truncated encoders": lambda arrays, facts: arrays.update(encoders=arrays["encoders"][:-3]),
    "envs of other numbers": lambda arrays, facts: arrays.update(index=np.array([7, 8])),
    "empty facts": lambda arrays, facts: facts.clear(),
    "another format": lambda arrays, facts: facts.update(format="2"),
    "an unknown setting": lambda arrays, facts: facts["identity"].update(colour="red"),
    "a setting of another type": lambda arrays, facts: facts["identity"].update(hidden=[8]),
    "a huge setting": lambda arrays, facts: facts["identity"].update(hidden=10**15),
    "no codes": lambda arrays, facts: facts.pop("codes"),
    "invalid codes": lambda arrays, facts: facts.update(codes="fire"),
    "a code without an action": lambda arrays, facts: facts["codes"].__setitem__(0, 20),
    "a last action that does not exist": lambda arrays, facts: arrays.update(
        emulators=np.append(np.uint8(200), arrays["emulators"][1:])
    ),
    "no counters": lambda arrays, facts: facts.update(learner={}),
    "counters of strings": lambda arrays, facts: facts["counters"].update(recent="none"),
    "a score of text": lambda arrays, facts: facts["counters"].update(recent=[["21", 100]]),
    "an infinite score": lambda arrays, facts: facts["counters"].update(recent=[[float("inf"), 100]]),
    "negative steps": lambda arrays, facts: facts["counters"].update(env_steps=-5),
    "a game of text": lambda arrays, facts: facts["envs"][0].update(score="21"),
    "a game of negative steps": lambda arrays, facts: facts["envs"][0].update(steps=-1),
    "missing streams": lambda arrays, facts: facts["envs"][0]["streams"].pop(),
    "envs is not a list": lambda arrays, facts: facts.update(envs=7),
    "no envs": lambda arrays, facts: facts.update(envs=[]),
    "streams without a state": lambda arrays, facts: facts["envs"][0].update(streams=[{}, {}, {}]),
    "a stream of another generator": lambda arrays, facts: facts["envs"][0]["streams"][0].update(
        bit_generator="MT19937"
    ),
}


@pytest.mark.parametrize("forge", FORGED.values(), ids=FORGED.keys())
def test_forged_content_with_a_valid_checksum_is_refused(tmp_path, saved, forge):
    arrays, facts, _ = saved
    arrays, facts = dict(arrays), json.loads(json.dumps(facts))
    forge(arrays, facts)
    path = tmp_path / "forged.npz"
    checkpoint_file.save(str(path), arrays, facts)
    with pytest.raises(Exception) as refused:
        resume(path, tmp_path / "run")
    assert isinstance(refused.value, UsageError), repr(refused.value)
    assert "\n" not in str(refused.value)
    assert not checkpoint_folder.candidates(str(tmp_path / "run"))


@pytest.mark.parametrize(
    "version, message",
    [
        (saved_run.FORMAT - 1, "belongs to an earlier version of pg_mpi: use the version that wrote it"),
        (saved_run.WITH_PARTS + 1, "is not a checkpoint of this version of pg_mpi: use the version that wrote it"),
    ],
)
def test_checkpoint_of_another_version_is_refused(tmp_path, saved, version, message):
    arrays, facts, _ = saved
    path = tmp_path / "other.npz"
    checkpoint_file.save(str(path), dict(arrays), {**facts, "format": version})
    with pytest.raises(CheckpointError, match=f"other.npz {message}"):
        resume(path, tmp_path / "run")
    assert not checkpoint_folder.candidates(str(tmp_path / "run"))


def test_forged_number_of_hidden_units_makes_no_large_policy(tmp_path, saved):
    """The settings ask for more parameters than the file has, as those of the command line do."""
    arrays, facts, _ = saved
    facts = json.loads(json.dumps(facts))
    facts["identity"]["hidden"] = 5000
    path = tmp_path / "forged.npz"
    checkpoint_file.save(str(path), dict(arrays), facts)
    with pytest.raises(UsageError, match="parameters are too few for 5000 hidden units on"):
        Trainer(
            World(),
            *parse_train(["--run-dir", str(tmp_path / "run"), "--resume", str(path), *ARGS, "--hidden", "5000"]),
        )


COMMITTED = Path(__file__).parents[1] / "data" / f"format-{saved_run.FORMAT}.npz"
SETTINGS = ["--env-id", "CartPole-v1", "--hidden", "4", "--num-steps", "16", "--envs-per-rank", "2"]
SETTINGS += ["--minibatch-size", "32", "--update-epochs", "1"]


def test_committed_checkpoint_of_this_format_continues(tmp_path):
    """A change that this file does not survive needs another ``saved_run.FORMAT``, and another file."""
    flags = [*SETTINGS, "--resume", str(COMMITTED), "--run-dir", str(tmp_path / "run")]
    trainer = Trainer(World(), *parse_train(flags))
    before = trainer.counters.update
    assert before > 0 and trainer.counters.games > 0
    trainer.save()
    known, _ = checkpoint_file.load(str(COMMITTED))
    _, saved, _ = checkpoint_folder.load_newest(str(tmp_path / "run"), print)
    assert known.keys() == saved.keys() and known["theta"].any()
    for name, array in known.items():
        np.testing.assert_array_equal(saved[name], array, err_msg=name)
    trainer.learn(trainer.play())
    trainer.save()
    assert checkpoint_folder.load_newest(str(tmp_path / "run"), print)[2]["counters"]["update"] == before + 1


def test_checkpoint_that_another_trainer_saves_meanwhile_is_resumed(tmp_path, monkeypatch):
    """As the ranks of a killed mpirun do, which save and end a moment after the next start has found no run."""
    real = RunFolder.open

    def open_after_another(folder):
        path = Path(checkpoint_folder.path_of(folder.checkpoints, 512))
        if not path.exists():
            path.parent.mkdir(parents=True)
            shutil.copyfile(COMMITTED, path)
        real(folder)

    monkeypatch.setattr(RunFolder, "open", open_after_another)
    trainer = Trainer(World(), *parse_train([*SETTINGS, "--run-dir", str(tmp_path / "run")]))
    assert trainer.counters.env_steps == 512
