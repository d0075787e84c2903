"""``trace/``: a file for each host and start, in the trace event format that Perfetto and Chrome open.

All ranks of a host append whole lines to its file. The format needs no closing bracket: a killed run's file opens too.

A process in the trace is a rank. Its first line shows the phases in time order, with ``play`` as one block. The second
line splits ``play``: its phases alternate thousands of times a second, so each is drawn as one block of its total time
in the round, one after another from the start of the round.
"""

import contextlib
import errno
import json
import os
from typing import Any

from pg_mpi.files.atomic_file import writing

PLAY = "play"
#: Phases that alternate within ``play``.
PARTS = ("emulator", "reset", "features", "inference")
FLUSH = 200  # events: a few updates
LINES = {0: "phases", 1: "play taken apart (sums)"}


class Trace:
    """Writes one rank's spans.

    Args:
        folder: an existing folder that all ranks see.
        rank, host: of the spans.
        start: number of earlier starts of the run.
        zero: the rank's clock at the common time 0.
    """

    def __init__(self, folder: str, rank: int, host: str, start: int, zero: float) -> None:
        self._rank, self._zero = rank, zero
        self._held: list[dict[str, Any]] = []
        self._path = os.path.join(folder, f"host-{host}-start-{start:03d}.json")
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        with writing(self._path):
            try:
                self._file = os.open(self._path, flags | os.O_EXCL, 0o666)
                os.write(self._file, b"[\n")  # the other ranks write after the first update, so after this
            except FileExistsError:
                self._file = os.open(self._path, flags)
        self._note("process_name", 0, name=f"rank {rank} on {host}")
        self._note("process_sort_index", 0, sort_index=rank)
        for line, name in LINES.items():
            self._note("thread_name", line, name=name)

    def _note(self, kind: str, line: int, **args: Any) -> None:
        self._held.append({"name": kind, "ph": "M", "pid": self._rank, "tid": line, "args": args})

    def add(self, update: int, phases: Any, steps: int) -> None:
        """Add the spans of an update. ``steps``: the steps of this rank in it."""
        sums = {name: phases.seconds[name] for name in PARTS}
        for name, begun, ended in phases.spans:
            if name in sums:
                sums[name] -= ended - begun  # time outside of play has its own block
            self._block(name, 0, begun, ended - begun, {"update": update})
        begun = next((begun for name, begun, _ in phases.spans if name == PLAY), None)
        if begun is not None:
            for name in PARTS:
                self._block(name, 1, begun, max(sums[name], 0.0), {"update": update, "steps": steps})
                begun += max(sums[name], 0.0)
        if len(self._held) >= FLUSH:
            self._write()

    def _block(self, name: str, line: int, begun: float, seconds: float, args: dict[str, Any]) -> None:
        stamp, length = round(1e6 * (begun - self._zero), 1), round(1e6 * seconds, 1)
        event = {"name": name, "cat": "phase", "ph": "X", "ts": stamp, "dur": length, "pid": self._rank, "tid": line}
        self._held.append({**event, "args": args})

    def _write(self) -> None:
        """Append the held events by one call, which other ranks' lines cannot divide."""
        text = "".join(json.dumps(event) + ",\n" for event in self._held).encode()
        with writing(self._path):
            if os.write(self._file, text) < len(text):  # on a disk that is nearly full
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._held = []

    def finish(self, update: int, phases: Any) -> None:
        """Add the spans since the last update, and write all that is held."""
        self.add(update, phases, 0)
        self._write()
        with writing(self._path):
            os.fsync(self._file)

    def close(self) -> None:
        """Close the file. What is not written yet is lost."""
        with contextlib.suppress(OSError):
            os.close(self._file)
