"""A disk of which power is lost: what of a run's recorded calls is durable, and the states that POSIX allows.

Data is durable after an fsync of its file, a name after an fsync of its folder. What was not synced may be there, be
missing, hold zeros, or be torn; the changes of names in a folder are lost from some point on. The method is that of
ALICE (Pillai et al., OSDI 2014). The calls are those that a real run made on ``faulty_fs``.
"""

import base64
import shutil
from pathlib import Path

from pg_mpi.files import checkpoint_folder

DATA = ("lost", "zeros", "torn", "kept")


class File:
    """A file's content: durable, and with all writes."""

    def __init__(self, durable=b""):
        self.durable, self.writes = durable, []

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

    def __init__(self, durable=None):
        self.durable, self.changes = durable or {}, []

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
    """The files of a recorded run, which began with the durable files in the folder ``place``, if that is given."""

    def __init__(self, place=None):
        self.root = _folder(place) if place else Folder()
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
        for changes in range(self.most_changes() + 1):
            for how in DATA:
                yield self.state(changes, how)

    def most_changes(self):
        """The largest number of changes of a folder's names that are not durable."""
        return max(len(folder.changes) for folder in self._folders(self.root))

    def state(self, changes, how):
        """The content by path after a cut that keeps so many changes of each folder's names, and of data ``how``."""
        return dict(self._files(self.root, "", changes, how))

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


def _folder(place):
    """A folder of the real file system, as a durable one."""
    nodes = {path.name: _folder(path) if path.is_dir() else File(path.read_bytes()) for path in place.iterdir()}
    return Folder(nodes)


def write(state, place):
    """Replace the content of a real folder by a state."""
    for path in place.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    for path, content in state.items():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_bytes(content)
