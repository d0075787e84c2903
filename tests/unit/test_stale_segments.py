"""Stale segments and folders of killed Open MPI jobs are removed, and nothing else."""

import mmap
import os
import subprocess

import pytest

from pg_mpi.mpi.launch import stale_segments


@pytest.fixture
def folders(tmp_path):
    memory, temporary = tmp_path / "shm", tmp_path / "tmp"
    memory.mkdir(), temporary.mkdir()
    return memory, temporary


def make_old(path):
    os.utime(path, (0, 0))
    return path


def write_file(path, old=True):
    path.write_bytes(bytes(4096))
    return make_old(path) if old else path


def test_removes_stale_segments_only(folders):
    memory, temporary = folders
    ended = subprocess.Popen(["true"])
    ended.wait()
    write_file(memory / "sm_segment.node-1.0.63760001.3")
    write_file(memory / "pg_mpi_shared.a_1bcdef")
    kept = {write_file(memory / "sm_segment.node-1.0.63760001.4", old=False), write_file(memory / "sem.other")}
    mapped = write_file(memory / "sm_segment.node-1.0.63760001.5")
    for name, kind in ((f"ompi.{ended.pid}", "ended"), (f"ompi.{os.getpid()}", "running"), ("ompi.vm.0", "other")):
        (temporary / name / "1").mkdir(parents=True)
        make_old(temporary / name)
        if kind != "ended":
            kept.add(temporary / name)
    used_folder = temporary / f"prted.{ended.pid}"
    used_folder.mkdir()
    inside = write_file(used_folder / "gds")
    make_old(used_folder)
    with open(mapped, "r+b") as one, open(inside, "r+b") as two, mmap.mmap(one.fileno(), 0), mmap.mmap(two.fileno(), 0):
        stale_segments.remove(str(memory), str(temporary))
    remaining = {*memory.iterdir(), *temporary.iterdir()}
    if not stale_segments._all_seen():  # some processes are hidden: folders stay
        remaining -= {temporary / f"ompi.{ended.pid}"}
    assert remaining == kept | {mapped, used_folder}
    stale_segments.remove(str(memory), str(temporary))
    assert mapped not in memory.iterdir(), "no process maps it any more"


def test_missing_folder_is_ignored(folders):
    stale_segments.remove("/does/not/exist", str(folders[1]))
