"""Read run folders. The content of files is checked and bounded; a ``UsageError`` states what to do."""

import glob
import json
import os
from collections.abc import Iterable
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from pg_mpi.config.errors import UsageError, system_faults
from pg_mpi.files.atomic_file import exists, is_folder
from pg_mpi.learning.phases import PHASES
from pg_mpi.report import run_files

Columns = dict[str, NDArray[np.float64]]
Lists = dict[str, list[float]]

#: Metrics that a line must have as numbers, and those that may be null.
NUMBERS = ("update", "env_steps", "games", "wall_s", "sps", "updates_per_s", "ranks", "restarts")
NULLABLE = ("return_mean", "return_ci95")
LARGEST = 1e15  # upper bound of counters and times
LEAST = {"updates_per_s": 1e-9, "ranks": 1}  # lower bounds of divisors


class Run(NamedTuple):
    """Data of a run folder.

    Attributes:
        name: unique on the page.
        path: path of the folder, as given.
        columns: name of a metric → float64, shape (updates,); NaN for null. Of a phase: seconds, mean of ranks.
        beside: data of the folder's other files.
        notes: a line for each file that could not be used.
    """

    name: str
    path: str
    columns: Columns
    beside: run_files.RunFiles
    notes: list[str]


def runs(paths: Iterable[str]) -> list[Run]:
    """Read the ``Run`` of each folder; a folder given twice is read once. Raises ``UsageError``."""
    folders: dict[str, str] = {}
    for path in paths:
        folders.setdefault(os.path.realpath(path), path)
    bases = [os.path.basename(real) for real in folders]
    return [_run(path, path if bases.count(base) > 1 else base) for path, base in zip(folders.values(), bases)]


def _run(path: str, name: str) -> Run:
    metrics = os.path.join(path, "metrics.jsonl")
    if not is_folder(path):
        known = "is a file" if exists(path) else "does not exist"
        raise UsageError(f"the run folder {path} {known}: give the folder that the trainer named at its start")
    if not exists(metrics):
        raise UsageError(f"{path} holds no metrics.jsonl{_hint(path)}: give a run folder, such as runs/pong-default-s0")
    notes: list[str] = []
    others = run_files.read(path, notes)
    try:
        with system_faults(f"{metrics} cannot be read", "make it readable, or copy it"):
            columns = _metrics(metrics)
    except _OtherVersion as missing:
        writer = f", {others.version} wrote it" if others.version else ""
        raise UsageError(
            f"{metrics} is of another version of pg_mpi ({missing}{writer}): make the report with that version"
        ) from None
    except ValueError as error:
        raise UsageError(
            f"{metrics} is damaged ({error}): remove that line and what follows it, or take a good copy"
        ) from None
    if not len(columns["update"]):
        raise UsageError(f"{metrics} has no whole line yet: wait until the first update is over")
    return Run(name, path, columns, others, notes)


def _hint(path: str) -> str:
    """Suggest the first run folder inside ``path``; empty if there is none."""
    found = sorted(glob.glob(os.path.join(glob.escape(path), "*", "metrics.jsonl")))
    return f" (did you mean {os.path.dirname(found[0])}?)" if found else ""


class _OtherVersion(Exception):
    """A valid JSON line lacks a field of this version."""


def _metrics(path: str) -> Columns:
    """Return the columns of a metrics file, phases included.

    Raises ``ValueError`` or ``_OtherVersion``, which name the line.
    """
    columns: Lists = {name: [] for name in (*NUMBERS, *NULLABLE, *PHASES)}
    with open(path, mode="rb") as file:
        for number, text in enumerate(file, start=1):
            if not text.endswith(b"\n"):
                break  # incomplete last line of a running or killed run
            try:
                line = json.loads(text.decode(), parse_constant=_no_constant)
            except (ValueError, RecursionError):
                raise ValueError(f"line {number} is not JSON") from None
            _add(line, number, columns)
    return {name: np.array(values, dtype=float) for name, values in columns.items()}


def _add(line: Any, number: int, columns: Lists) -> None:
    """Check one line and append its values."""
    if not isinstance(line, dict):
        raise ValueError(f"line {number} is not an object")
    spent = line.get("phase_s")
    if not isinstance(spent, dict):
        raise _OtherVersion(f"its line {number} has no phase_s")
    found = line | {name: spent.get(name, 0) for name in PHASES}
    for name, values in columns.items():
        value = found.get(name, "")
        if value is None and name in NULLABLE:
            value = np.nan
        elif isinstance(value, bool) or not isinstance(value, (int, float)):
            raise _OtherVersion(f"its line {number} has no {name}")
        elif abs(value) > LARGEST or (value < LEAST.get(name, 0) and name not in NULLABLE):
            raise ValueError(f"line {number} has an impossible {name}")
        elif name in ("update", "wall_s") and values and value < values[-1]:
            raise ValueError(f"line {number} goes back in time")
        values.append(value)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
