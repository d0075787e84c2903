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


def pass_on(source: IO[bytes], target: IO[bytes]) -> threading.Thread:
    """Copy a stream without the notices, in a thread that ends with the stream."""

    def copy() -> None:
        for line in without_notices(source):
            with contextlib.suppress(OSError):  # a reader that has left: mpirun must not wait for it
                target.write(line)
                target.flush()

    thread = threading.Thread(target=copy, daemon=True)
    thread.start()
    return thread
