"""Loss of power: all states of a run folder that POSIX allows after a cut at each call of a real run.

Data is durable after an fsync of its file, a name after an fsync of its folder. What was not synced may be there, be
missing, hold zeros, or be torn; the changes of names in a folder are lost from some point on. The method is that of
ALICE (Pillai et al., OSDI 2014). The calls are those that a real run made on ``faulty_fs``.
"""

import base64
import contextlib
import hashlib
import io
import random
import shutil
import sys
from pathlib import Path

from faulty_fs import Mounted, usable
from io_errors import HALF, WHOLE, line, updates
from jobs import newest, run
from outcome import fault

from pg_mpi.files import checkpoint_file, checkpoint_folder
from pg_mpi.files.metrics_file import MetricsLog
from pg_mpi.run.env_states import Layout

DATA = ("lost", "zeros", "torn", "kept")


class File:
    """A file's content: durable, and with all writes."""

    def __init__(self):
        self.durable, self.writes = b"", []

    def content(self, how):
        """The content after a cut at which the writes since the last fsync are ``how``."""
        writes = {"lost": 0, "torn": len(self.writes) // 2}.get(how, len(self.writes))
        data = bytearray(self.durable)
        for offset, piece in self.writes[:writes]:
            if offset is None:  # a new length
                del data[piece:]
                data.extend(bytes(piece - len(data)))
            else:
                data.extend(bytes(max(0, offset - len(data))))
                data[offset : offset + len(piece)] = bytes(len(piece)) if how == "zeros" else piece
        return bytes(data)

    def sync(self):
        """Make all writes durable."""
        self.durable, self.writes = self.content("kept"), []


class Folder:
    """A folder's names: durable, and the changes since, each a dict from a name to its new node or None."""

    def __init__(self):
        self.durable, self.changes = {}, []

    def names(self, changes=None):
        """Node by name after the first ``changes`` changes; by default after all."""
        names = dict(self.durable)
        for change in self.changes[:changes]:
            names.update(change)
        return {name: node for name, node in names.items() if node}

    def sync(self):
        """Make all names durable."""
        self.durable, self.changes = self.names(), []


class Disk:
    """The files of a recorded run."""

    def __init__(self):
        self.root = Folder()
        self.acknowledged = 0  # steps of the newest checkpoint that the run saw as saved

    def _find(self, path):
        node = self.root
        for part in Path(path).parts[1:]:
            node = node.names().get(part)
        return node

    def apply(self, call):
        """Apply a recorded call."""
        path = Path(call["path"])
        parent, kind = self._find(path.parent), call["kind"]
        if kind == "open" and call.get("create"):
            if path.name.startswith("ranks.json"):  # it is written after a checkpoint
                self.acknowledged = max(map(steps, self._find("/run/checkpoints").names()))
            parent.changes.append({path.name: File()})
        elif kind == "mkdir":
            parent.changes.append({path.name: Folder()})
        elif kind == "unlink":
            parent.changes.append({path.name: None})
        elif kind == "rename":
            new = Path(call["new"])
            assert new.parent == path.parent
            parent.changes.append({path.name: None, new.name: parent.names()[path.name]})
        elif kind == "write":
            data = call.get("length")
            piece = base64.b64decode(call["data"]) if data is None else data
            self._find(path).writes.append((call.get("offset"), piece))
        elif kind == "fsync":
            self._find(path).sync()

    def states(self):
        """The states after a cut now: dicts of content by path."""
        most = max(len(folder.changes) for folder in self._folders(self.root))
        for changes in range(most + 1):
            for how in DATA:
                yield dict(self._files(self.root, "", changes, how))

    def _folders(self, folder):
        yield folder
        for node in folder.names().values():
            if isinstance(node, Folder):
                yield from self._folders(node)

    def _files(self, folder, path, changes, how):
        for name, node in folder.names(changes).items():
            if isinstance(node, Folder):
                yield from self._files(node, f"{path}{name}/", changes, how)
            else:
                yield f"{path}{name}", node.content(how)


def steps(name):
    """The steps in a checkpoint's name, 0 for another name."""
    return int(name[5:-4]) if checkpoint_folder.NAME.fullmatch(name) else 0


@fault("file system: loss of power at any call of a run (root only)", tries=1000, full=100_000)
def lost_power(outcome, folder, tries, seed):
    """Each state must load a checkpoint that is at least the acknowledged one, with whole metrics; some are resumed."""
    if usable():
        lose_power(outcome, folder, tries, seed, "train")


@fault("file system: loss of power at any call of a run with parts (root only)", tries=1000, full=100_000)
def lost_power_with_parts(outcome, folder, tries, seed):
    """The same for two ranks that each write a part."""
    if usable():
        lose_power(outcome, folder, tries, seed, "parts")


def lose_power(outcome, folder, tries, seed, command):
    """Check ``tries`` of all states after a loss of power."""
    with Mounted(folder / "fs") as mounted:
        mounted.set(record=True)
        for budget in (HALF, WHOLE):
            assert run(line(command, mounted.folder / "run", budget), folder).returncode == 0
        calls = mounted.log()
    disk, found = Disk(), {}
    for call in calls:
        disk.apply(call)
        for state in disk.states():
            digest = hashlib.sha256(repr(sorted(state.items())).encode()).digest()
            found[digest] = (max(disk.acknowledged, found.get(digest, (0, None))[0]), state)
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
    (place / "run").mkdir(parents=True)
    for path, content in state.items():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_bytes(content)
    warnings = []
    there = checkpoint_folder.load_newest(str(place / "run"), warnings.append)
    assert not warnings, f"lost: {warnings}"
    assert (there is not None) >= (acknowledged > 0), "lost: no checkpoint"
    if there:
        assert steps(Path(there[0]).name) >= acknowledged, f"lost: {there[0]}, not {acknowledged}"
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
    result = run(line(command, place / "run"), place)
    assert result.returncode == 0, f"wrong: exit {result.returncode} {result.stderr}"
    assert newest(place)[1] == newest(whole)[1], "wrong: other bits in the end"
    assert updates(place / "run") == [1, 2, 3, 4], "lost: metrics after resuming"
