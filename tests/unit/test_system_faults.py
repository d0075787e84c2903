"""Errors of the operating system: they never make a file damaged, and their exit codes tell whether to run again."""

import errno
import io
import os
import pickle
import resource
import subprocess
import sys

import numpy as np
import pytest
from os_errors import failing

from pg_mpi.config.errors import CheckpointError, RunError, SystemFault, UsageError, reportable
from pg_mpi.config.settings import TrainConfig
from pg_mpi.files import atomic_file, checkpoint_file, checkpoint_folder, csv_table
from pg_mpi.files.run_folder import RunFolder
from pg_mpi.files.video import Video
from pg_mpi.files.video import check as check_video
from pg_mpi.mpi.world import World
from pg_mpi.run import saving
from pg_mpi.tune import trial
from scaling.model.virtual.world import Hub


@pytest.mark.parametrize(
    ("name", "code"),
    [
        *dict.fromkeys(("EIO", "ESTALE", "ENOSPC", "EDQUOT", "EAGAIN", "EINTR", "ETIMEDOUT", "ENOLCK"), 75).items(),
        *dict.fromkeys(("EACCES", "EPERM", "EROFS"), 1).items(),
    ],
)
def test_exit_code_of_an_error_number(name, code):
    error = OSError(getattr(errno, name), "reason", "file")
    error.agreed = True
    fault = pickle.loads(pickle.dumps(reportable(error)))
    assert (fault.code, fault.agreed) == (code, True) and str(fault).startswith("file: reason: fix that")


def test_files_have_the_permissions_of_the_users_umask(tmp_path):
    before = os.umask(0o027)
    try:
        atomic_file.write_json(str(tmp_path / "file"), {})
    finally:
        os.umask(before)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o640


def test_other_errors_keep_their_traceback():
    assert reportable(KeyError("x")) is None and reportable(OSError(errno.EBADF, "bad")) is None
    assert reportable(MemoryError("all gone")).code == 1
    assert (UsageError("x").code, RunError("x").code) == (2, 1)


@pytest.fixture
def saved(tmp_path):
    """The run folder of two checkpoints."""
    for step in (1, 2):
        path = checkpoint_folder.path_of(str(tmp_path / "checkpoints"), step)
        checkpoint_folder.save(path, {"theta": np.zeros(99)}, {"step": step})
    return tmp_path


@pytest.mark.parametrize(("number", "ever"), [(errno.EIO, True), (errno.EACCES, True), (errno.ESTALE, False)])
def test_error_of_any_read_is_not_a_damaged_checkpoint(saved, monkeypatch, number, ever):
    """The N-th read or seek fails, or all from it on, for every N. zipfile reports most of them as a damaged file."""
    newest, before = saved / "checkpoints" / "step-000000000002.npz", tree(saved)
    for first in range(100):
        reads = []

        class Failing(io.FileIO):
            def _next(self, read, *args):
                reads.append(self)  # noqa: B023 called in this round
                fails = len(reads) > first if ever else len(reads) == first + 1  # noqa: B023
                return failing(number)() if fails else read(*args)

            def readinto(self, buffer):
                return self._next(super().readinto, buffer)

            def read(self, *size):
                return self._next(super().read, *size)

            def readall(self):
                return self._next(super().readall)

            def seek(self, *place):
                return self._next(super().seek, *place)

        monkeypatch.setattr(checkpoint_file, "_Reader", type("Reader", (REAL_READER, Failing), {}))
        try:
            assert checkpoint_folder.load_newest(str(saved), print)[0] == str(newest)
            if len(reads) <= first:
                break
        except SystemFault as fault:
            assert fault.code == (1 if number == errno.EACCES else 75)
            assert str(fault).startswith(f"{newest} cannot be read ({os.strerror(number)}): fix that")
        assert tree(saved) == before
    assert first > 2


REAL_READER = checkpoint_file._Reader


def tree(folder):
    """Content of all files below a folder, by path."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(("function", "number"), [("stat", errno.ESTALE), ("listdir", errno.EIO), ("stat", errno.EIO)])
def test_error_of_a_lookup_is_not_a_missing_checkpoint(saved, monkeypatch, function, number):
    monkeypatch.setattr(os, function, failing(number))
    with pytest.raises(SystemFault, match="cannot be read"):
        checkpoint_folder.load_newest(str(saved), print)


def test_error_of_a_lookup_is_not_a_missing_folder(tmp_path, monkeypatch):
    """``os.path.isdir`` answers False: the folder would be made again, and parts removed that a checkpoint needs."""
    path = checkpoint_folder.path_of(str(tmp_path), 64)
    part = checkpoint_folder.part_of(path, 0, 1, 2)
    atomic_file.make_folder(checkpoint_folder.parts_of(path))
    for name in (path, part, str(tmp_path / "config.json"), str(tmp_path / "config.json.damaged")):
        atomic_file.write_text(name, name)
    before = tree(tmp_path)
    with monkeypatch.context() as broken:
        broken.setattr(os, "stat", failing(errno.EIO))
        broken.setattr(os, "lstat", failing(errno.EIO))
        for attempt in (
            lambda: atomic_file.make_folder(str(tmp_path)),
            lambda: checkpoint_folder.make_parts_folder(path),
            lambda: atomic_file.keep_copy(str(tmp_path / "config.json"), "x"),
        ):
            with pytest.raises(SystemFault, match="Input/output error") as caught:
                attempt()
            assert caught.value.code == 75
    assert tree(tmp_path) == before


def test_error_of_a_lookup_is_not_a_folder_that_cannot_be_written(tmp_path, monkeypatch):
    csv_table.make_folder(str(tmp_path / "study"), "--study")
    monkeypatch.setattr(os, "stat", failing(errno.ESTALE))
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(SystemFault, match="study cannot be read") as caught:
        csv_table.make_folder(str(tmp_path / "study"), "--study")
    assert caught.value.code == 75


def test_memory_error_is_not_a_damaged_checkpoint(saved, monkeypatch):
    def refuse(*_):
        raise MemoryError("no room")

    monkeypatch.setattr(checkpoint_file, "_array", refuse)
    with pytest.raises(SystemFault, match=r"out of memory\): use fewer ranks"):
        checkpoint_folder.load_newest(str(saved), print)


@pytest.mark.parametrize(
    ("number", "kind", "code"),
    [
        (errno.ENOSPC, SystemFault, 75),
        (errno.ESTALE, SystemFault, 75),
        (errno.EROFS, SystemFault, 1),
        (errno.EACCES, SystemFault, 1),
        *((getattr(errno, name), UsageError, 2) for name in ("ENOENT", "ENOTDIR", "EISDIR", "ENAMETOOLONG", "ELOOP")),
    ],
)
def test_run_folder_that_cannot_be_made(tmp_path, monkeypatch, number, kind, code):
    monkeypatch.setattr(os, "mkdir", failing(number))
    with pytest.raises(kind, match=f"run cannot be written .{os.strerror(number)}.: ") as caught:
        RunFolder(str(tmp_path / "run")).open()
    assert caught.value.code == code


def test_links_in_a_run_folder_are_not_followed(tmp_path):
    (tmp_path / "run").mkdir()
    other = tmp_path / "other"
    other.write_text("precious")
    (tmp_path / "run" / "lock").symlink_to(other)
    with pytest.raises(UsageError, match="Too many levels of symbolic links"):
        RunFolder(str(tmp_path / "run")).open()
    (tmp_path / "run" / f"report.html.{os.getpid()}.tmp").symlink_to(other)
    atomic_file.write_text(str(tmp_path / "run" / "report.html"), "page")
    assert other.read_text() == "precious" and (tmp_path / "run" / "report.html").read_text() == "page"


def test_only_temporary_files_of_ours_are_removed(tmp_path):
    ours = ["config.json.7.tmp", "metrics.jsonl.7.tmp", "ranks.json.12.tmp", "DONE.1.tmp", "report.html.9.tmp"]
    ours += ["metrics.jsonl.damaged.7.tmp", "config.json.damaged.2.7.tmp"]
    part = tmp_path / "checkpoints" / "step-000000000640.parts" / "ranks-000000-000127-of-1024.npz.3.tmp"
    part.parent.mkdir(parents=True)
    for path in (part, *(tmp_path / name for name in (*ours, "notes.tmp", "step.tmp", "x.7.tmp"))):
        path.touch()
    folder = RunFolder(str(tmp_path))
    folder.open()
    assert list(part.parent.iterdir()), "removed before the start is known to be allowed"
    folder.claim()
    assert not list(part.parent.iterdir())
    assert sorted(os.listdir(tmp_path)) == ["checkpoints", "lock", "notes.tmp", "step.tmp", "x.7.tmp"]


def test_folder_that_cannot_be_synced_is_written(tmp_path, monkeypatch):
    def fsync(descriptor):
        if os.path.isdir(f"/proc/self/fd/{descriptor}"):
            failing(errno.EINVAL)()

    monkeypatch.setattr(os, "fsync", fsync)
    atomic_file.write_json(str(tmp_path / "a.json"), 5)
    assert (tmp_path / "a.json").read_text() == "5\n"


def test_names_of_new_folders_are_synced(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(atomic_file, "sync_folder", synced.append)
    atomic_file.make_folder(str(tmp_path / "a" / "b"))
    assert synced == [str(tmp_path), str(tmp_path / "a")]


@pytest.mark.parametrize("error, state", [(OSError(errno.EIO, "x"), None), (ValueError("x"), "failed")])
def test_error_of_the_system_fails_no_trial(monkeypatch, error, state):
    def trainer(*_):
        raise error

    monkeypatch.setattr(trial, "Trainer", trainer)
    args = (World(), None, set(), trial.Judge(1.0, None), None, lambda: None)
    if state:
        assert trial.play(*args).state == state
    else:
        with pytest.raises(SystemFault) as caught:
            trial.play(*args)
        assert caught.value.code == 75


def test_hosts_do_not_write_parts_if_rank_0_cannot_read_the_settings(tmp_path):
    """Otherwise a host that does not see the folder would find its missing file equal."""

    def groups():
        folder = RunFolder(str(tmp_path))
        return Hub(4, lambda size: 0.0).run(lambda world: saving.choose_group(world, TrainConfig(), 2, folder))

    assert groups() == [4] * 4
    (tmp_path / "config.json").write_text('{"starts": [{}]}')
    assert groups() == [2] * 4


def test_no_temporary_file_stays_after_any_error(tmp_path):
    with pytest.raises(MemoryError), atomic_file.replacing(str(tmp_path / "report.html")):
        raise MemoryError
    assert not list(tmp_path.iterdir())


def test_loop_of_links_is_no_checkpoint(tmp_path):
    (tmp_path / "x").symlink_to("x")
    assert checkpoint_folder.candidates(str(tmp_path / "x")) == []
    with pytest.raises(UsageError, match="x cannot be"):
        RunFolder(str(tmp_path / "x")).open()


def test_missing_file_is_no_checkpoint(tmp_path):
    with pytest.raises(SystemFault, match="No such file"):
        checkpoint_file.load(str(tmp_path / "missing.npz"))
    with pytest.raises(CheckpointError, match="not a file"):
        checkpoint_file.load(str(tmp_path))


#: Loads a checkpoint again and again, with the N-th allocation failing; prints the kinds of errors.
ALLOCATIONS = """
import collections, sys, _testcapi
from pg_mpi.files import checkpoint_file, checkpoint_folder

folder, most = sys.argv[1], int(sys.argv[2])
checkpoint_folder.load_newest(folder, print)
kinds = collections.Counter()
for number in range(most):
    _testcapi.set_nomemory(number, number + 1)
    try:
        checkpoint_folder.load_newest(folder, print)
        kind = "loaded"
    except BaseException as error:
        _testcapi.remove_mem_hooks()
        kind = type(error).__name__
    _testcapi.remove_mem_hooks()
    kinds[kind] += 1
print(*sorted(kinds))
"""


def test_failed_allocation_is_not_a_damaged_checkpoint(saved):
    """Each allocation of the loader fails in turn: CPython itself turns some into errors of other types."""
    pytest.importorskip("_testcapi", reason="this Python is built without its test module")
    line = [sys.executable, "-c", ALLOCATIONS, str(saved), "2000"]
    result = subprocess.run(line, capture_output=True, text=True)
    assert result.stdout == "MemoryError SystemFault loaded\n", result.stdout + result.stderr


@pytest.mark.parametrize("name", ["game.mp4", "game.gif"])
def test_video_that_the_disk_cannot_hold_is_an_error(tmp_path, name):
    """Files are limited to 16 kB, so that ffmpeg fails, with the first frames or as it finishes."""
    frame = np.random.default_rng(0).integers(256, size=(210, 160, 3), dtype=np.uint8)
    for frames in (1, 60):
        film, limits = Video(str(tmp_path / name), 15), resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (16_384, limits[1]))
        try:
            with pytest.raises(SystemFault, match=f"{name} (cannot be written|could not be finished)"):
                for _ in range(frames):
                    film.add(frame)
                film.close()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_name_of_a_video_may_have_a_colon(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    film = Video("pong:0.gif", 15)
    film.add(np.zeros((210, 160, 3), dtype=np.uint8))
    film.close()
    assert (tmp_path / "pong:0.gif").read_bytes().startswith(b"GIF")


def test_folder_is_no_video(tmp_path):
    (tmp_path / "game.mp4").mkdir()
    with pytest.raises(UsageError, match="is a folder: give another name"):
        check_video(str(tmp_path / "game.mp4"))
