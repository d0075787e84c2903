"""Read files of the kernel, such as those in /proc. Standard library only."""

import contextlib
from pathlib import Path


def content(path: str | Path) -> str:
    """Text of a file; empty where it cannot be read, as of a process that has ended."""
    with contextlib.suppress(OSError):
        return Path(path).read_text(encoding="utf-8", errors="replace")
    return ""
