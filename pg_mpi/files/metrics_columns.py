"""Read ``metrics.jsonl`` into numpy arrays."""

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from pg_mpi.config.array_types import Doubles
from pg_mpi.files.metrics_file import read_lines

Columns = dict[str, Doubles]


def read_columns(path: str) -> tuple[Columns, int]:
    """Read a metrics file: {name: float64 (updates,)}. NaN: a missing value, or no finite number.

    Numbers of an object are under ``name.key``, such as ``phase_s.wait``. Also returns the number of damaged lines,
    which are left out. Raises as ``read_lines``.
    """
    lines, damaged = read_lines(path)
    flat = [_flat(line) for line in lines]
    names = dict.fromkeys(name for line in flat for name in line)
    return {name: np.array([line.get(name, np.nan) for line in flat], dtype=float) for name in names}, damaged


def _flat(line: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a line; those of an object within it by ``name.key``."""
    numbers: dict[str, float] = {}
    for name, value in line.items():
        found = {f"{name}.{key}": each for key, each in value.items()} if isinstance(value, dict) else {name: value}
        for key, each in found.items():
            if each is None or isinstance(each, (int, float)):
                numbers[key] = np.nan if each is None or abs(each) > sys.float_info.max else each
    return numbers
