"""Loss of power in a run: at each recorded call of one, and again and again until one is finished. See ``disk``."""

import contextlib
import hashlib
import io
import random
import shutil
import sys
import time
from pathlib import Path

import disk
from faulty_fs import Mounted, usable
from io_errors import HALF, WHOLE, line, updates
from jobs import end, finish, newest, run, start
from outcome import fault

from pg_mpi.files import checkpoint_file, checkpoint_folder
from pg_mpi.files.metrics_file import MetricsLog
from pg_mpi.run.env_states import Layout


@fault("file system: loss of power at any call of a run (root only)", tries=100, full=100_000)
def lost_power(outcome, folder, tries, seed):
    """Each state must load a checkpoint that is at least the acknowledged one, with whole metrics; some are resumed."""
    if usable():
        lose_power(outcome, folder, tries, seed, "train")


@fault("file system: loss of power at any call of a run with parts (root only)", tries=100, full=100_000)
def lost_power_with_parts(outcome, folder, tries, seed):
    """The same for two ranks that each write a part."""
    if usable():
        lose_power(outcome, folder, tries, seed, "parts")


def lose_power(outcome, folder, tries, seed, command):
    """Check ``tries`` of all states after a loss of power."""
    with Mounted(folder / "fs") as mounted:
        mounted.set(record=True)
        for budget in (HALF, WHOLE):
            run(line(command, mounted.folder / "run", budget), folder, code=0)
        calls = mounted.log()
    there, found = disk.Disk(), {}
    for call in calls:
        there.apply(call)
        for state in there.states():
            digest = hashlib.sha256(repr(sorted(state.items())).encode()).digest()
            found[digest] = (max(there.acknowledged, found.get(digest, (0, None))[0]), state)
    states = list(found.values())
    random.Random(seed).shuffle(states)
    print(f"    {len(states):,} states after {len(calls):,} calls", file=sys.stderr, flush=True)
    for number, (acknowledged, state) in enumerate(states[:tries]):
        with outcome.attempt():
            check(folder / "state", acknowledged, state)
            if number % 10 == 0:
                resume(folder / "state", command, mounted.backing)


def check(place, acknowledged, state):
    """Assert that a state holds what was acknowledged."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    disk.write(state, place)
    (place / "run").mkdir(exist_ok=True)
    warnings = []
    there = checkpoint_folder.load_newest(str(place / "run"), warnings.append)
    assert not warnings, f"lost: {warnings}"
    assert (there is not None) >= (acknowledged > 0), "lost: no checkpoint"
    if there:
        assert disk.steps(Path(there[0]).name) >= acknowledged, f"lost: {there[0]}, not {acknowledged}"
        update = there[2]["counters"]["update"]
        layout = Layout.of(there[2])
        for number in range(layout.parts if layout else 0):
            checkpoint_file.load(layout.part(there[0], number))
        shutil.copytree(place / "run", place / "copy")
        with contextlib.redirect_stderr(io.StringIO()):  # lines of updates that were not saved may be damaged
            MetricsLog(str(place / "copy" / "metrics.jsonl"), update)
        assert updates(place / "copy") == list(range(1, update + 1)), "lost: metrics"
    if "run/DONE" in state:
        assert acknowledged, "wrong: DONE without a checkpoint"


def resume(place, command, whole):
    """Assert that a state, resumed, ends as the uninterrupted run in ``whole``."""
    run(line(command, place / "run"), place, code=0)
    assert newest(place)[1] == newest(whole)[1], "wrong: other bits in the end"
    assert updates(place / "run") == [1, 2, 3, 4], "lost: metrics after resuming"


@fault("file system: kill -9 and loss of what is not synced, until the run is finished (root only)", tries=4, full=200)
def lost_again_and_again(outcome, folder, tries, seed):
    """The run ends as one without a loss, and what a finished run has written is durable."""
    if not usable():
        return
    rng = random.Random(seed)
    for command in ("train", "parts"):
        run(line(command, folder / command / "run"), folder, code=0)
    with Mounted(folder / "fs") as mounted:
        for number in range(tries):
            with outcome.attempt():
                command = ("train", "parts")[number % 2]
                lose_until_finished(mounted, command, rng)
                assert newest(mounted.backing)[1] == newest(folder / command)[1], "wrong: other bits in the end"
                assert updates(mounted.backing / "run") == [1, 2, 3, 4], "lost: metrics"


def lose_until_finished(mounted, command, rng):
    """Train on the mounted file system, with loss of power at random moments and after the end."""
    disk.write({}, mounted.backing)
    job, code = None, None
    while code is None:
        mounted.set(record=True)
        there = disk.Disk(mounted.backing)
        job = start(line(command, mounted.folder / "run"), mounted.folder.parent)
        until = time.monotonic() + rng.uniform(0.3, 4)
        while job.poll() is None and time.monotonic() < until:
            time.sleep(0.01)
        code = job.poll()
        end(job)
        assert code in (None, 0), f"wrong: exit {code} {finish(job)}"
        finish(job)
        for call in mounted.log():
            there.apply(call)
        disk.write(there.state(rng.randrange(there.most_changes() + 1), rng.choice(disk.DATA)), mounted.backing)
    assert (mounted.backing / "run" / "DONE").exists(), "lost: a finished run is not marked DONE"
