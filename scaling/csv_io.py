"""Read results: CSV files of ``pg_mpi.files.csv_table``, and finished parts of a measurement."""

import csv
import json
from pathlib import Path

from pg_mpi.config.errors import UsageError

LARGEST = 1e15  # upper bound for speeds and numbers of ranks


def read_csv(path, kind, version, positive=()):
    """Read a file of ``write_csv``: rows (dicts, numbers converted) and facts (a dict of str).

    ``positive``: required columns of numbers above 0. Raises ``UsageError`` for a file that is missing, damaged, of
    another kind or of another version.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
        header = [line for line in lines if line.startswith("#")]
        rows = [
            {name: _value(text) for name, text in row.items()}
            for row in csv.DictReader(line for line in lines if line and not line.startswith("#"))
        ]
        whole = all(
            None not in row and None not in row.values() and all(0 < row[name] < LARGEST for name in positive)
            for row in rows
        )
    except (OSError, UnicodeDecodeError, csv.Error, KeyError, TypeError):
        header, whole = [], False
    if not whole or header[:1] != [f"# pg_mpi {kind} {version}"]:
        raise UsageError(
            f"{path} cannot be read as a {kind} of version {version}: measure it again with python -m scaling.{kind}"
        )
    return rows, dict(line[2:].split(": ", 1) for line in header if ": " in line)


def _value(text):
    for kind in (int, float):
        try:
            return kind(text)
        except (TypeError, ValueError):
            pass
    return text


def read_parts(folder, same, names="ranks-*.json"):
    """Read the files ``names`` of a folder, by default the finished parts of a measurement, sorted by name.

    Raises ``UsageError`` for a damaged file, and for a result with settings other than ``same``.
    """
    found = []
    for path in sorted(Path(folder).glob(names)):
        try:
            part = dict(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            raise UsageError(f"{path} is damaged: delete it to measure it again") from None
        if others := [name for name, value in same.items() if part.get(name) != value]:
            raise UsageError(f"{path} has other settings ({', '.join(others)}): give another --out")
        found.append(part)
    return found
