"""What came of the tries of a fault, and the list of all faults."""

import contextlib
import dataclasses
import os
import time
from collections.abc import Callable
from pathlib import Path

FAULTS = []
#: A trainer with a fault planted: its first argument says which.
FAULTY = str(Path(__file__).parents[1] / "mpi/faults.py")


@dataclasses.dataclass
class Fault:
    """A fault with its number of tries, usually and in full."""

    name: str
    tries: int
    full: int
    play: Callable


def fault(name, tries, full=None):
    """Register ``play(tally, folder, tries, seed)`` as a fault."""

    def register(play):
        FAULTS.append(Fault(name, tries, full or tries, play))
        return play

    return register


class Tally:
    """Counts. ``notes``: what went wrong, in words."""

    def __init__(self, name):
        self.name, self.tries, self.worst, self.notes = name, 0, 0.0, []
        self.bad = dict.fromkeys(("lost", "hung", "wrong"), 0)

    @contextlib.contextmanager
    def trying(self):
        """One try. An ``AssertionError`` of the form ``lost: why`` counts there, any other error as wrong."""
        self.tries += 1
        try:
            yield
        except Exception as error:  # any: the next fault is to be tried too
            text = " ".join((str(error) or repr(error)).split())
            kind = next((kind for kind in self.bad if text.startswith(kind)), "wrong")
            self.bad[kind] += 1
            self.notes.append(f"{kind} in try {self.tries}: {text[:600]}")

    @contextlib.contextmanager
    def recovering(self):
        """The time until all is well again."""
        begun = time.monotonic()
        yield
        self.worst = max(self.worst, time.monotonic() - begun)

    def row(self):
        """A JSON-able dict."""
        return {"fault": self.name, "tries": self.tries, **self.bad, "worst_s": round(self.worst, 2)}

    def line(self):
        """A line of the table."""
        bad = self.bad
        counts = f"{self.tries:>7,}{bad['lost']:>6}{bad['hung']:>6}{bad['wrong']:>7}"
        return f"{self.name:<62}{counts}{self.worst:>10.2f}"


def session(leader):
    """The command lines of a session's processes that still run."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.getsid(int(entry.name)) == leader and b") Z " not in (entry / "stat").read_bytes():
                found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return found


def gone(leader, patience=3.0):
    """Assert that nothing of a session is left."""
    until = time.monotonic() + patience
    while left := session(leader):
        assert time.monotonic() < until, f"hung: left behind {left}"
        time.sleep(0.05)
