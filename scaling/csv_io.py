"""Read results: CSV files of ``pg_mpi.files.csv_table``, and finished parts of a measurement."""

import csv
import json
from pathlib import Path

from pg_mpi.config.errors import UsageError

LARGEST = 1e15  # upper bound for speeds and numbers of ranks


def read_csv(path, kind, version, numbers=(), positive=()):
    """Read a file of ``write_csv``: rows (dicts, numbers converted) and facts (a dict of str).

    ``numbers``: required columns of finite numbers; ``positive``: required columns of numbers above 0. Raises
    ``UsageError`` for a file that is missing, damaged, of another kind or of another version.
    """
    try:
        with open(path, encoding="utf-8", newline="") as file:
            lines = file.read().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read ({getattr(error, 'strerror', None) or 'not UTF-8 text'})") from None
    head = lines[0].split() if lines else []
    if head[:2] != ["#", "pg_mpi"] or len(head) != 4:
        raise UsageError(f"{path} is not a result of pg_mpi: give a CSV file that python -m scaling.{kind} wrote")
    if head[2:] != [kind, str(version)]:
        raise UsageError(
            f"{path} is a {head[2]} of version {head[3]}, not a {kind} of version {version}: measure it again with "
            f"python -m scaling.{kind}"
        )
    facts = dict(line[2:].split(": ", 1) for line in lines[1:] if line.startswith("# ") and ": " in line)
    body = [line for line in lines if line and not line.startswith("#")]
    try:
        rows = [{name: _value(text) for name, text in row.items()} for row in csv.DictReader(body)]
    except csv.Error:
        rows = [{None: None}]
    if any(None in row or None in row.values() for row in rows):
        raise UsageError(f"{path} is damaged: a row has more or fewer columns than its header")
    for names, least, what in ((numbers, -LARGEST, "numbers"), (positive, 0, "numbers above 0")):
        if not all(
            isinstance(row.get(name), (int, float)) and least < row[name] < LARGEST for row in rows for name in names
        ):
            raise UsageError(f"{path} is damaged: it needs {what} in the columns {', '.join(names)}")
    return rows, facts


def _value(text):
    for kind in (int, float):
        try:
            return kind(text)
        except (TypeError, ValueError):
            pass
    return text


def read_parts(folder, same):
    """Read a folder's ``ranks-*.json``, the finished parts of a measurement, sorted by name.

    Raises ``UsageError`` for a damaged file, and for a result with settings other than ``same``.
    """
    found = []
    for path in sorted(Path(folder).glob("ranks-*.json")):
        try:
            part = dict(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            raise UsageError(f"{path} is damaged: delete it to measure it again") from None
        if {name: part.get(name) for name in same} != same:
            raise UsageError(f"{folder} holds results of other settings ({part.get('command')}): give another --out")
        found.append(part)
    return found
