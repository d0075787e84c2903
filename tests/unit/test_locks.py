"""Locks of run folders, trials and journals, also where the file system has none."""

import errno
import multiprocessing
import os
import select
import subprocess
import sys
import time

import numpy as np
import pytest
from os_errors import failing

from pg_mpi.config.errors import RunError, SystemFault
from pg_mpi.config.settings import TrainConfig
from pg_mpi.files import atomic_file, folder_lock
from pg_mpi.files.folder_lock import FolderLock
from pg_mpi.files.run_folder import RunFolder
from pg_mpi.mpi.world import World
from pg_mpi.run import saving
from pg_mpi.run.env_states import Layout
from pg_mpi.tune import study
from pg_mpi.tune.study import JournalLock


def test_folder_that_is_removed_or_replaced_is_not_written(tmp_path):
    folder = RunFolder(str(tmp_path / "run"))
    folder.open()
    folder.check()
    (tmp_path / "run").rename(tmp_path / "old")
    with pytest.raises(RunError, match="removed or taken over while in use"):
        folder.check()
    RunFolder(str(tmp_path / "run")).open()
    with pytest.raises(RunError, match="removed or taken over while in use"):
        folder.check()


@pytest.mark.parametrize(
    "taken, error, match", [(False, SystemFault, "No such file"), (True, RunError, "taken over while in use")]
)
def test_temporary_file_removed_by_who_took_the_folder_over(tmp_path, monkeypatch, taken, error, match):
    folder = RunFolder(str(tmp_path / "run"))
    folder.open()
    saver = saving.Saving(folder, TrainConfig(), 1, time.monotonic, lambda: None)

    def replace(source, target):
        if taken:
            (tmp_path / "run" / "lock").write_text("another")
        os.remove(source)
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), target)

    monkeypatch.setattr(atomic_file.os, "replace", replace)
    with pytest.raises(error, match=match):
        saver.write(World(), 100, ({"theta": np.zeros(3)}, {}), ({}, {}), Layout(1, 1, 1))


@pytest.mark.parametrize("together", [False, True], ids=["later", "together"])
@pytest.mark.parametrize("flock", [lambda *_: None, failing(errno.ENOLCK)], ids=["granted", "no locks"])
def test_locks_that_do_not_hold_stop_the_older_trainer(tmp_path, monkeypatch, flock, together):
    monkeypatch.setattr(folder_lock.fcntl, "flock", flock)
    older = FolderLock(str(tmp_path))
    older.claim()
    older.check()
    monkeypatch.setattr(folder_lock.platform, "node", lambda: "another host")
    if together:  # the newer one emptied the file before the older one wrote its name
        monkeypatch.setattr(folder_lock.os, "ftruncate", lambda *_: None)
    newer = FolderLock(str(tmp_path))
    older.check()  # until nothing refuses the newer one
    newer.claim()
    newer.check()
    with pytest.raises(RunError, match="taken over"):
        older.check()


def test_held_lock_names_its_holder(tmp_path, monkeypatch):
    monkeypatch.setattr(folder_lock, "PATIENCE", 0.2)
    first = FolderLock(str(tmp_path))
    first.claim()
    with pytest.raises(SystemFault, match=f"in use by .* process {os.getpid()}: stop that trainer") as caught:
        FolderLock(str(tmp_path))
    assert caught.value.code == 75
    first.close()
    FolderLock(str(tmp_path)).check()


def test_refused_lock_of_a_run_folder_is_no_lock_of_another(tmp_path, monkeypatch):
    monkeypatch.setattr(folder_lock.fcntl, "flock", failing(errno.EACCES))
    with pytest.raises(SystemFault, match="Permission denied") as caught:
        RunFolder(str(tmp_path)).open()
    assert caught.value.code == 1


@pytest.mark.parametrize(
    "number, code", [(errno.EIO, 75), (errno.ESTALE, 75), (errno.EACCES, 1), (errno.ENOSYS, 1), (errno.ENOLCK, 1)]
)
def test_error_of_a_trials_lock(tmp_path, monkeypatch, number, code):
    monkeypatch.setattr(folder_lock.fcntl, "flock", failing(number))
    with pytest.raises(SystemFault, match="cannot be locked") as caught:
        folder_lock.take_lock(str(tmp_path), "claim")
    assert caught.value.code == code


def test_child_of_a_trial_does_not_hold_its_lock(tmp_path):
    """As a simulator that outlives the trainer."""
    claim = folder_lock.take_lock(str(tmp_path), "claim")
    child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
    child.start()
    try:
        claim.close()
        assert folder_lock.take_lock(str(tmp_path), "claim", patience=10)
    finally:
        child.kill()
        child.join()


def test_lock_of_a_journal_is_waited_for_and_ends_with_its_holder(tmp_path, monkeypatch):
    code = f"""from pg_mpi.tune.study import JournalLock
lock = JournalLock({str(tmp_path)!r}, {str(tmp_path / "journal")!r})
print("r", end="", flush=True)
lock.acquire()
print("h", end="", flush=True)
input()"""
    mine = JournalLock(str(tmp_path), str(tmp_path / "journal"))
    mine.acquire()
    other = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def said(seconds):
        return select.select([other.stdout], [], [], seconds)[0] and os.read(other.stdout.fileno(), 100)

    try:
        assert said(30) == b"r" and not said(0.5), "the lock was taken twice"
        mine.release()
        assert said(30) == b"h"
        monkeypatch.setattr(study, "PATIENCE", 0.2)
        with pytest.raises(SystemFault, match="another process has locked the study") as caught:
            mine.acquire()
        assert caught.value.code == 75
        other.kill()
        other.wait()
        mine.acquire()
    finally:
        other.kill()
        other.communicate()


@pytest.mark.parametrize("number, code", [(errno.EIO, 75), (errno.ENOLCK, 1)])
def test_error_of_a_journals_lock(tmp_path, monkeypatch, number, code):
    monkeypatch.setattr(folder_lock.fcntl, "flock", failing(number))
    with pytest.raises(SystemFault, match="cannot be locked") as caught:
        JournalLock(str(tmp_path), "").acquire()
    assert caught.value.code == code
