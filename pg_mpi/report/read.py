"""Read run folders. The content of files is checked and bounded; a ``UsageError`` states what to do."""

import json
import os
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pg_mpi.config.array_types import Doubles
from pg_mpi.config.errors import UsageError
from pg_mpi.files.metrics_columns import Columns, read_columns
from pg_mpi.learning.phases import PHASES

#: Metrics that each line must have as numbers, and those that may be missing.
NUMBERS = ("update", "env_steps", "games", "wall_s", "sps", "updates_per_s", "ranks", "restarts")
NULLABLE = ("return_mean", "return_ci95")
LARGEST = 1e15  # upper bound of counters and times
MOST_JSON = 64 << 20  # bytes of a JSON file
LEAST = {"updates_per_s": 1e-9, "ranks": 1} | dict.fromkeys(NULLABLE, -LARGEST)  # lower bounds that are not 0


class Run(NamedTuple):
    """Data of a run folder.

    Attributes:
        name: unique on the page.
        path: path of the folder, as given.
        columns: name of a metric → float64, shape (updates,); NaN for null. Of a phase, and of ``other``, the time
            outside of all phases: seconds, mean of ranks. ``seconds``: of each update.
        files: name of a JSON file → its content; empty if it is missing or unusable.
        waits: float64, seconds that each rank waited from the last start to its last checkpoint; without
            ``waits_by_rank`` quantiles over the ranks. Empty where unknown.
        notes: a line for each file, or lines of metrics, that could not be used.
    """

    name: str
    path: str
    columns: Columns
    files: dict[str, dict[str, Any]]
    waits: Doubles
    waits_by_rank: bool
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
    found, damaged = read_columns(metrics)
    try:
        columns = _checked(found)
    except ValueError as error:
        raise UsageError(
            f"{metrics} is damaged or of another version of pg_mpi ({error}): take a good copy, or make the report "
            "with the version that config.json names"
        ) from None
    notes = [f"damaged lines of metrics.jsonl are left out: {damaged}"] if damaged else []
    files = {each: _content(path, each, notes) for each in ("config.json", "ranks.json", "evaluation.json", "DONE")}
    ranks = files["ranks.json"]
    by_rank, is_last = "phase_s" in ranks, ranks.get("start") == columns["restarts"][-1].item()
    waits = _waits(ranks.get("phase_s" if by_rank else "quantiles_s") if is_last else None)
    return Run(name, path, columns, files, waits, by_rank, notes)


def _checked(found: Columns) -> Columns:
    """The columns that the report shows, phases included. Raises ``ValueError``, which names a wrong one."""
    missing = np.full(len(found["update"]), np.nan)
    columns = {name: found.get(name, missing) for name in (*NUMBERS, *NULLABLE)}
    if not any(name.startswith("phase_s.") for name in found):
        raise ValueError("it has no phase_s")
    for name in PHASES:  # a version may have had fewer
        columns[name] = np.nan_to_num(found.get(f"phase_s.{name}", missing))
    for name, values in columns.items():
        if (wrong := _is_wrong(name, values)).any():
            raise ValueError(f"its {name} of update {found['update'][wrong.argmax()]:.0f} cannot be used")
    columns["seconds"] = 1 / columns["updates_per_s"]
    columns["other"] = np.maximum(columns["seconds"] - sum(columns[name] for name in PHASES), 0)
    return columns


def _is_wrong(name: str, values: Doubles) -> NDArray[np.bool_]:
    """Where a column is out of its bounds, which NaN is too, or goes back."""
    wrong: NDArray[np.bool_] = ~((values >= LEAST.get(name, 0)) & (values <= LARGEST))
    if name in NULLABLE:
        wrong &= ~np.isnan(values)
    if name == "update":  # wall_s may step back a little when another rank takes the log over
        wrong[1:] |= np.diff(values) < 0
    return wrong


def _content(folder: str, name: str, notes: list[str]) -> dict[str, Any]:
    """Return the JSON object in a file; an empty one if it is missing, or, with a note, if it is unusable."""
    try:
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            content = json.loads(file.read(MOST_JSON))
        if not isinstance(content, dict):
            raise ValueError("not an object")
        return content
    except FileNotFoundError:
        pass
    except OSError as error:
        notes.append(f"{name} cannot be read ({error.strerror}) and is left out")
    except (ValueError, RecursionError):
        notes.append(f"{name} is damaged and is left out")
    return {}


def _waits(seconds: Any) -> Doubles:
    """Return ``seconds["wait"]``; empty unless it is a list of numbers."""
    try:
        waits = np.array(seconds["wait"], dtype=float)
        return waits if waits.ndim == 1 and (waits >= 0).all() and (waits < LARGEST).all() else np.empty(0)
    except (KeyError, TypeError, ValueError, OverflowError):
        return np.empty(0)
