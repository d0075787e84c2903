"""Read host files."""

import re
from collections import Counter
from pathlib import Path

from pg_mpi.config.errors import UsageError


def host_file(path: str) -> dict[str, int]:
    """Read the nodes of an Open MPI host file (``name slots=N``) or an MPICH one (``name:N``). N defaults to 1.

    Raises ``UsageError`` for a file that cannot be read or is not a host file.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not a text"
        raise UsageError(
            f"the host file {path} cannot be read ({reason}): give a text with NAME slots=N lines"
        ) from None
    nodes: Counter[str] = Counter()
    for line in text.splitlines():
        if words := line.partition("#")[0].strip():
            found = re.fullmatch(r"([\w.-]+)(?::(\d+)|\s+slots\s*=\s*(\d+))?(?:\s+max[-_]slots\s*=\s*\d+)?", words)
            if not found:
                raise UsageError(f"the host file {path} has a line {words!r}: give NAME slots=N on each")
            nodes[found[1]] += int(found[2] or found[3] or 1)
    if not nodes:
        raise UsageError(f"the host file {path} names no host: give NAME slots=N on each line")
    return dict(nodes)
