"""A file system for tests, by FUSE: a folder passed through, whose calls can be made to fail and are recorded.

    python tests/chaos/faulty_fs.py BACKING MOUNT CONTROL LOG DELAY

``DELAY``: seconds after which a change made elsewhere is visible at the latest, as on NFS.

Before each call the server reads the JSON file ``CONTROL``, if it has changed:

    kind     of the calls to fail: open, read, write, fsync, rename, mkdir, unlink, stat, list or lock
    first    index of the first call of this kind that fails
    error    name of its errno, such as EIO
    ever     whether all later calls of this kind fail too
    locks    false: the file system has no locks; "lie": it grants every lock

It appends a line of JSON to ``LOG`` for each call; with ``record`` set in ``CONTROL``, with the data of writes. It is a
stand-in for a failing disk: real NFS and Lustre differ.
"""

import base64
import contextlib
import errno
import fcntl
import json
import os
import shutil
import subprocess
import sys
import time

KINDS = ("open", "read", "write", "fsync", "rename", "mkdir", "unlink", "stat", "list", "lock")


def serve(backing, mount, control, log, delay):
    """Serve until unmounted."""
    import mfusepy

    class Faulty(mfusepy.Operations):
        use_ns = True

        def __init__(self):
            self._changed, self._control, self._counts = None, {}, {}
            self._log = open(log, "a", encoding="utf-8")  # noqa: SIM115 held until the end

        def _call(self, kind, path, **more):
            """Record a call and raise its error, if it is to fail."""
            if (changed := os.stat(control).st_mtime_ns) != self._changed:
                with open(control, encoding="utf-8") as file:
                    self._control, self._counts, self._changed = json.load(file), {}, changed
            number = self._counts.get(kind, 0)
            self._counts[kind] = number + 1
            rule = self._control
            fails = rule.get("kind") == kind and (
                number == rule["first"] or (rule.get("ever") and number > rule["first"])
            )
            error = rule["error"] if fails else "ENOLCK" if kind == "lock" and not rule.get("locks", True) else None
            data = more.pop("data", None)
            if data is not None:
                more["data"] = base64.b64encode(data).decode() if rule.get("record") else len(data)
            self._log.write(json.dumps({"kind": kind, "path": path, **more, "error": error}) + "\n")
            self._log.flush()
            if error:
                raise mfusepy.FuseOSError(getattr(errno, error))

        def _at(self, path):
            return backing + path

        def getattr(self, path, fh=None):
            self._call("stat", path)
            about = os.fstat(fh) if fh is not None else os.lstat(self._at(path))
            times = {name: getattr(about, f"{name}_ns") for name in ("st_atime", "st_mtime", "st_ctime")}
            return times | {
                name: getattr(about, name) for name in ("st_mode", "st_nlink", "st_size", "st_uid", "st_gid")
            }

        def readdir(self, path, fh):
            self._call("list", path)
            return [".", "..", *os.listdir(self._at(path))]

        def open(self, path, flags):
            self._call("open", path, flags=flags)
            return os.open(self._at(path), flags & ~os.O_APPEND)  # the kernel gives the offset of each write

        def create(self, path, mode, fi=None):
            self._call("open", path, create=True)
            return os.open(self._at(path), os.O_RDWR | os.O_CREAT, mode)

        def read(self, path, size, offset, fh):
            self._call("read", path)
            return os.pread(fh, size, offset)

        def write(self, path, data, offset, fh):
            self._call("write", path, data=data, offset=offset)
            return os.pwrite(fh, data, offset)

        def truncate(self, path, length, fh=None):
            self._call("write", path, length=length)
            os.truncate(self._at(path) if fh is None else fh, length)

        def release(self, path, fh):
            os.close(fh)

        def fsync(self, path, datasync, fh):
            self._call("fsync", path)

        def fsyncdir(self, path, datasync, fh):
            self._call("fsync", path, folder=True)

        def rename(self, old, new):
            self._call("rename", old, new=new)
            os.rename(self._at(old), self._at(new))

        def mkdir(self, path, mode):
            self._call("mkdir", path)
            os.mkdir(self._at(path), mode)

        def unlink(self, path):
            self._call("unlink", path)
            os.unlink(self._at(path))

        def rmdir(self, path):
            self._call("unlink", path)
            os.rmdir(self._at(path))

        def flock(self, path, fh, op):
            self._call("lock", path)
            if self._control.get("locks") != "lie":
                fcntl.flock(fh, op)

    options = dict.fromkeys(("attr_timeout", "entry_timeout", "negative_timeout"), float(delay))
    mfusepy.FUSE(Faulty(), mount, foreground=True, nothreads=True, **options)


def usable():
    """Whether FUSE can be used here."""
    return os.geteuid() == 0 and os.path.exists("/dev/fuse") and shutil.which("fusermount3") is not None


class Mounted:
    """A mounted ``faulty_fs``: ``folder`` is passed through from ``backing``.

    Args:
        place: folder of ``backing`` and ``folder``.
        delay: see above.
        inside: command line before those that run in another mount namespace; there it may be mounted once more.
    """

    def __init__(self, place, delay=0, inside=()):
        self.backing, self.folder, self._inside = place / "backing", place / "mounted", inside
        self._control, self._log, self._changes = place / "control.json", place / "log.jsonl", 0
        for folder in (self.backing, self.folder):
            folder.mkdir(parents=True, exist_ok=bool(inside))
        self.set()
        line = [sys.executable, __file__, self.backing, self.folder, self._control, self._log, delay]
        self._server = subprocess.Popen([*inside, *map(str, line)], start_new_session=True)  # Ctrl-C leaves it mounted
        deadline = time.monotonic() + 20
        while subprocess.run([*inside, "mountpoint", "-q", self.folder]).returncode:
            assert self._server.poll() is None and time.monotonic() < deadline, "the file system is not mounted"
            time.sleep(0.02)

    def set(self, **rule):
        """Set the rule for the calls from now on, and empty the log."""
        self._changes += 1
        temporary = self._control.with_suffix(".tmp")
        temporary.write_text(json.dumps(rule))
        os.utime(temporary, ns=(self._changes, self._changes))  # each rule has its own time
        os.replace(temporary, self._control)
        with contextlib.suppress(FileNotFoundError):
            os.truncate(self._log, 0)

    def log(self):
        """The calls since ``set``."""
        return [json.loads(line) for line in self._log.read_text().splitlines()]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """Unmount."""
        subprocess.run([*self._inside, "umount", "-l", self.folder], check=True)
        self._server.wait(20)


if __name__ == "__main__":
    serve(*sys.argv[1:])
