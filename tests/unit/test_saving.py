"""When a run is saved, in which order files are synced, and what is not saved."""

import os
import time

import numpy as np
import pytest

from pg_mpi.config.command_line import parse_train
from pg_mpi.config.errors import RunError
from pg_mpi.files import atomic_file, checkpoint_folder
from pg_mpi.files.run_folder import RunFolder
from pg_mpi.mpi.world import World
from pg_mpi.run import saving
from pg_mpi.run.env_states import Layout
from scaling.model.virtual.world import Hub


def test_file_is_synced_before_it_is_renamed(tmp_path, monkeypatch):
    done = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(
        os,
        "fsync",
        lambda number: done.append("folder" if os.path.isdir(f"/proc/self/fd/{number}") else "file") or fsync(number),
    )
    monkeypatch.setattr(os, "replace", lambda *names: done.append("replace") or replace(*names))
    atomic_file.write_text(str(tmp_path / "a"), "text")
    assert done == ["file", "replace", "folder"]


def saver(tmp_path, world, clock, sync=lambda: None):
    folder = RunFolder(str(tmp_path / "run"))
    config, _ = parse_train(["--checkpoint-every", "10m"])
    return saving.Saving(folder, config, world.size, clock, sync)


def test_metrics_are_synced_before_a_checkpoint(tmp_path):
    done = []
    s = saver(
        tmp_path, World(), time.monotonic, lambda: done.append(checkpoint_folder.candidates(str(tmp_path / "run")))
    )
    s.write(World(), 64, ({"theta": np.zeros(3)}, {}), ({}, {}), Layout(1, 1, 1))
    assert done == [[]] and checkpoint_folder.candidates(str(tmp_path / "run"))


@pytest.mark.parametrize("name", ["theta", "optimizer", "running_norm"])
def test_state_that_is_not_finite_is_not_saved(tmp_path, name):
    s = saver(tmp_path, World(), time.monotonic)
    with pytest.raises(RunError, match=f"the {name} is not finite and is not saved"):
        s.write(World(), 64, ({"theta": np.zeros(3)} | {name: np.array([np.nan])}, {}), ({}, {}), Layout(1, 1, 1))


def test_ranks_agree_when_a_save_by_time_is_due(tmp_path):
    def main(world):
        now = [100.0]
        s = saver(tmp_path, world, lambda: now[0])
        s.unsaved += 1
        now[0] += 700.0 if world.rank == 0 else 100.0
        first = s.is_due(world)
        s.write(world, 64, ({"theta": np.zeros(3)}, {}), ({}, {}) if world.rank == 0 else None, Layout(3, 3, 3))
        s.unsaved += 1
        now[0] += 100.0
        return first, s.is_due(world)

    assert Hub(3, lambda size: 0.0).run(main) == [(True, False)] * 3


def test_reopened_run_is_not_done(tmp_path):
    folder = RunFolder(str(tmp_path / "run"))
    folder.open()
    (tmp_path / "run" / "DONE").touch()
    folder.reopen()
    assert not (tmp_path / "run" / "DONE").exists()
    folder.reopen()
