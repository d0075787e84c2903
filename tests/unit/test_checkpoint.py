"""Checkpoint files: round trip, determinism, damaged files and untrusted content."""

import json
import os
import zipfile

import numpy as np
import pytest

from pg_mpi.config.errors import CheckpointError, RunError, SystemFault
from pg_mpi.files import checkpoint_file, checkpoint_folder

ARRAYS = {"theta": np.arange(1000, dtype=np.float32), "masks": np.ones((2, 3), np.uint8), "none": np.zeros((0, 4))}
FACTS = {"update": 3, "big": 2**100, "name": "ünï"}


def save(folder, step, keep=3, spared=None):
    path = checkpoint_folder.path_of(str(folder / "checkpoints"), step)
    checkpoint_folder.save(path, ARRAYS, FACTS, keep, spared)
    return path


def test_save_and_load_round_trip(tmp_path):
    arrays, facts = checkpoint_file.load(save(tmp_path, 5))
    assert facts == FACTS
    assert sorted(arrays) == sorted(ARRAYS)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], array)
        assert arrays[name].dtype == array.dtype


def test_equal_content_gives_equal_files(tmp_path):
    first, second = save(tmp_path / "a", 5), save(tmp_path / "b", 5)
    with open(first, "rb") as a, open(second, "rb") as b:
        assert a.read() == b.read()


def test_save_keeps_the_newest_and_no_temporary_file(tmp_path):
    for step in (1, 2, 3, 1000, 999):
        save(tmp_path, step, keep=2)
    assert sorted(os.listdir(tmp_path / "checkpoints")) == ["step-000000000999.npz", "step-000000001000.npz"]


def test_save_keeps_the_best(tmp_path):
    best = save(tmp_path, 1)
    os.mkdir(checkpoint_folder.parts_of(best))
    for step in (2, 3, 4):
        save(tmp_path, step, keep=1, spared=best)
    assert sorted(os.listdir(tmp_path / "checkpoints")) == [
        "step-000000000001.npz",
        "step-000000000001.parts",
        "step-000000000004.npz",
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"theta": ARRAYS["theta"][::-1].copy()},
        {"theta": ARRAYS["theta"].view(np.int32)},
        {"masks": np.ones((3, 2), np.uint8)},
        {"other": np.ones(3)},
    ],
    ids=["values", "type", "shape", "name"],
)
def test_checksum_covers_names_types_shapes_and_values(tmp_path, change):
    path = save(tmp_path, 1)
    with np.load(path) as file:
        content = dict(file)
    np.savez(path, **(content | change))  # a sound archive with the checksum of the old content
    with pytest.raises(CheckpointError, match="wrong checksum"):
        checkpoint_file.load(path)


@pytest.mark.parametrize("damage", ["truncate", "flip", "zero", "empty", "folder", "text"])
def test_damaged_newest_checkpoint_falls_back_with_a_warning(tmp_path, damage):
    older, newest = save(tmp_path, 1), save(tmp_path, 2)
    with open(newest, "rb") as file:
        content = bytearray(file.read())
    content[len(content) // 2] ^= 1
    damaged = {
        "truncate": content[: len(content) // 2],
        "flip": content,
        "zero": bytes(len(content)),
        "empty": b"",
        "text": b"hello",
    }
    if damage == "folder":
        os.remove(newest)
        os.mkdir(newest)
    else:
        with open(newest, "wb") as file:
            file.write(damaged[damage])
    warnings = []
    path, _, facts = checkpoint_folder.load_newest(str(tmp_path), warnings.append)
    assert (path, facts) == (older, FACTS)
    assert len(warnings) == 1 and newest in warnings[0] and "\n" not in warnings[0]


def test_a_checkpoint_removed_while_it_is_loaded_is_replaced_by_the_newer_one(tmp_path, monkeypatch):
    older, load = save(tmp_path, 1), checkpoint_file.load

    def load_after_a_save(path):
        if path == older:
            save(tmp_path, 2, keep=1)
        return load(path)

    monkeypatch.setattr(checkpoint_file, "load", load_after_a_save)
    path, _, facts = checkpoint_folder.load_newest(str(tmp_path), pytest.fail)
    assert path == checkpoint_folder.path_of(str(tmp_path / "checkpoints"), 2) and facts == FACTS
    save(tmp_path, 1)
    with pytest.raises(SystemFault, match="cannot be read"):  # it was asked for by name
        checkpoint_folder.load_newest(older, pytest.fail)


def test_load_newest_raises_if_all_are_damaged_and_returns_none_without_files(tmp_path):
    assert checkpoint_folder.load_newest(str(tmp_path), print) is None
    path = save(tmp_path, 1)
    with open(path, "wb") as file:
        file.write(b"no")
    with pytest.raises(CheckpointError, match="no usable checkpoint"):
        checkpoint_folder.load_newest(str(tmp_path), lambda line: None)


def test_pickled_objects_are_not_loaded(tmp_path):
    class Bomb:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "executed"),)

    path = tmp_path / "bomb.npz"
    np.savez(path, theta=np.array([Bomb()], dtype=object), facts=np.zeros(1, np.uint8), sha256=np.zeros(32, np.uint8))
    with pytest.raises(CheckpointError):
        checkpoint_file.load(str(path))
    assert not (tmp_path / "executed").exists()


def test_foreign_files_are_refused(tmp_path):
    foreign = tmp_path / "foreign.npz"
    np.savez(foreign, theta=np.zeros(3))
    compressed = tmp_path / "compressed.npz"
    np.savez_compressed(compressed, theta=np.zeros(10**6))
    other = tmp_path / "other.zip"
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("hello.txt", json.dumps(FACTS))
    for path in (foreign, compressed, other):
        with pytest.raises(CheckpointError, match="is not a usable checkpoint"):
            checkpoint_file.load(str(path))


def test_newest_is_the_one_with_most_steps(tmp_path):
    steps = (999_999_999_999, 1_000_000_000_000, 10**15, 5)
    paths = {step: save(tmp_path, step, keep=9) for step in steps}
    assert checkpoint_folder.listing(str(tmp_path / "checkpoints")) == [paths[step] for step in sorted(steps)[::-1]]


def test_checkpoint_too_large_to_load_is_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint_file, "LARGEST", (1 << 20) + 4000)
    with pytest.raises(RunError, match="more than can be loaded again, and is not saved: use fewer envs"):
        save(tmp_path, 1)
    assert not list(tmp_path.rglob("*.npz*"))
