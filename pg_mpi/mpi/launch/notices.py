"""Open MPI's notices of exit codes that the ranks themselves have explained. Standard library only."""

import contextlib
import re
import threading
from collections.abc import Iterable, Iterator
from typing import IO

RULE = re.compile(rb"-{60,}\s*")
NOTICE = b"one or more processes exited with non-zero status"
STRAY = re.compile(rb"\[[^]]+\] PMIX ERROR: ")  # of a connection that ended; it may come within a notice
EXPLAINED = re.compile(rb"Exit code:\s+(?:2|75)\b")  # wrong usage, and a checkpoint


def without_notices(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines of mpirun's standard error, but for its notice that a rank has ended with code 2 or 75.

    The notice is a few lines between two rules of dashes. Everything else is passed on as soon as it is known to be so.
    """
    held: list[bytes] = []
    inside = False
    for line in lines:
        rule = RULE.fullmatch(line)
        if inside:
            held.append(line)
            if rule:
                yield from [] if EXPLAINED.search(b"".join(held)) else held
                held, inside = [], False
        elif held and (NOTICE in line or STRAY.match(line)):
            held.append(line)
            inside = NOTICE in line
        else:
            yield from held
            held = [line] if rule else []
            yield from [] if rule else [line]
    yield from held


class StreamCopy(threading.Thread):
    """Copies a stream without the notices, until the stream ends.

    Attributes:
        failed: whether a line reports an error of ours.
    """

    def __init__(self, source: IO[bytes], target: IO[bytes]) -> None:
        super().__init__(daemon=True)
        self._source, self._target, self.failed = source, target, False
        self.start()

    def run(self) -> None:
        """Copy."""
        for line in without_notices(self._source):
            self.failed |= line.startswith(b"pg_mpi: error: ")
            with contextlib.suppress(OSError):  # a reader that has left: mpirun must not wait for it
                self._target.write(line)
                self._target.flush()
