"""CSV tables with their provenance.

    # pg_mpi sweep 1
    # command: python -m scaling.sweep --ranks 1,2 --preset fast
    # commit: ...
    ranks,repeat,sps,...
    1,0,2301.4,...

The first line holds the kind of table and the version of its columns; each further ``#`` line is a fact.
"""

import csv
import io
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from pg_mpi.config.errors import UsageError, system_faults
from pg_mpi.files import atomic_file
from pg_mpi.files.atomic_file import write_text


def make_folder(path: str, flag: str = "--out") -> None:
    """Make the folder of ``flag``.

    Raises ``UsageError`` for an unsuitable path or an existing folder without write permission, ``SystemFault`` for
    any other error of the system.
    """
    with system_faults(f"{flag} {path} cannot be written", "give another folder", given=True):
        atomic_file.make_folder(path)
        if os.access(path, os.W_OK):
            return
        os.stat(path)  # ``os.access`` is False for any error of the system
        if not os.access(path, os.W_OK):
            raise UsageError(f"{flag} {path} cannot be written: give another folder")


def write_csv(
    path: str | os.PathLike[str], kind: str, version: int, rows: Sequence[Mapping[str, Any]], facts: Mapping[str, Any]
) -> None:
    """Write ``rows``, which have the same keys, below a header of ``facts``, atomically."""
    file = io.StringIO()
    file.write(f"# pg_mpi {kind} {version}\n")
    for name, value in facts.items():
        file.write(f"# {name}: {value if isinstance(value, str) else json.dumps(value)}\n")
    writer = csv.DictWriter(file, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(str(path), file.getvalue())
