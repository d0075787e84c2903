"""What killed jobs left behind goes, and nothing else."""

import mmap
import os
import subprocess

import pytest

from pg_mpi.mpi.launch import stale_segments


@pytest.fixture
def places(tmp_path):
    memory, temporary = tmp_path / "shm", tmp_path / "tmp"
    memory.mkdir(), temporary.mkdir()
    return memory, temporary


def aged(path):
    os.utime(path, (0, 0))
    return path


def file(path, age=True):
    path.write_bytes(bytes(4096))
    return aged(path) if age else path


def test_what_is_stale_goes_and_what_is_not_stays(places):
    memory, temporary = places
    dead = subprocess.Popen(["true"])
    dead.wait()
    file(memory / "sm_segment.node-1.0.63760001.3")
    kept = {file(memory / "sm_segment.node-1.0.63760001.4", age=False), file(memory / "sem.other")}
    held = file(memory / "sm_segment.node-1.0.63760001.5")
    for name, kind in ((f"ompi.{dead.pid}", "gone"), (f"ompi.{os.getpid()}", "alive"), ("ompi.vm.0", "other")):
        (temporary / name / "1").mkdir(parents=True)
        aged(temporary / name)
        if kind != "gone":
            kept.add(temporary / name)
    used = temporary / f"prted.{dead.pid}"
    used.mkdir()
    inside = file(used / "gds")
    aged(used)
    with open(held, "r+b") as one, open(inside, "r+b") as two, mmap.mmap(one.fileno(), 0), mmap.mmap(two.fileno(), 0):
        stale_segments.remove(str(memory), str(temporary))
    left = {*memory.iterdir(), *temporary.iterdir()}
    if not stale_segments._all_seen():  # then folders stay
        left -= {temporary / f"ompi.{dead.pid}"}
    assert left == kept | {held, used}
    stale_segments.remove(str(memory), str(temporary))
    assert held not in memory.iterdir(), "nobody holds it any more"


def test_places_that_are_not_there(places):
    stale_segments.remove("/does/not/exist", str(places[1]))
