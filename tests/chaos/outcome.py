"""Register faults, and record the outcome of their tries."""

import contextlib
import dataclasses
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import jobs

FAULTS = []
#: The trainer with an injected fault, which is its first argument.
FAULTY = str(Path(__file__).parents[1] / "mpi/faults.py")


@dataclasses.dataclass
class Fault:
    """A fault with its usual and its full number of tries."""

    name: str
    tries: int
    full: int
    run: Callable


def fault(name, tries, full=None):
    """Decorator that registers ``run(outcome, folder, tries, seed)`` as a fault."""

    def register(run):
        FAULTS.append(Fault(name, tries, full or tries, run))
        return run

    return register


class Outcome:
    """Counts of the tries of a fault and of their failures, which are printed at once."""

    def __init__(self, name):
        self.name, self.tries, self.worst = name, 0, 0.0
        self.failures = dict.fromkeys(("lost", "hung", "wrong"), 0)

    @contextlib.contextmanager
    def attempt(self):
        """Count one try. An exception counts as the kind that its message begins with, else as wrong."""
        self.tries += 1
        try:
            yield
        except Exception as error:  # any: the other tries continue
            text = " ".join((str(error) or repr(error)).split())
            kind = next((kind for kind in self.failures if text.startswith(kind)), "wrong")
            self.failures[kind] += 1
            short = text if len(text) < 6000 else f"{text[:3000]} ... {text[-3000:]}"  # the stack of a crash is long
            print(f"    {kind} in try {self.tries}: {short}", file=sys.stderr, flush=True)
        except BaseException:  # stopped
            self.tries -= 1
            raise

    @contextlib.contextmanager
    def recovery(self):
        """Measure the time of a recovery; ``worst`` is the longest."""
        begun = time.monotonic()
        yield
        self.worst = max(self.worst, time.monotonic() - begun)

    def row(self):
        """Return the counts as a JSON-able dict."""
        return {"fault": self.name, "tries": self.tries, **self.failures, "worst_s": round(self.worst, 2)}

    def line(self):
        """Return the counts as a line of the table."""
        failures = self.failures
        counts = f"{self.tries:>7,}{failures['lost']:>6}{failures['hung']:>6}{failures['wrong']:>7}"
        return f"{self.name:<62}{counts}{self.worst:>10.2f}"


def train_whole(folder, ranks, *flags):
    """Train the uninterrupted run ``whole``, with which other runs of the folder are compared."""
    jobs.run(jobs.command(ranks, "pg_mpi.train", "--run-dir", "whole", *flags), folder, code=0)


def check_equal(folder, name):
    """Assert that a run has the newest checkpoint of ``whole``."""
    assert jobs.newest(folder, name)[1] == jobs.newest(folder, "whole")[1], (
        f"wrong: the checkpoint of {name} differs from that of the uninterrupted run"
    )


def session(leader):
    """Return the command lines of a session's running processes."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.getsid(int(entry.name)) == leader and b") Z " not in (entry / "stat").read_bytes():
                found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return found


def gone(leader, patience=3.0):
    """Assert that a session has no running processes after at most ``patience`` seconds."""
    until = time.monotonic() + patience
    while running := session(leader):
        assert time.monotonic() < until, f"hung: processes are running: {running}"
        time.sleep(0.05)
