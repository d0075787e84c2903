"""Limit the threads of this rank's libraries, and describe its threads and cores.

The launcher binds ranks to cores: see ``launch/mpirun.py``.
"""

import itertools
import os
import platform
import re
from collections.abc import Sequence
from typing import Any

import threadpoolctl

from pg_mpi import THREAD_VARIABLES


def blas_threads() -> int:
    """Threads of the largest BLAS or OpenMP pool loaded in this process (1 if there is none)."""
    return max([pool["threads"] for pool in pools()], default=1)


def pools() -> list[dict[str, Any]]:
    """BLAS and OpenMP pools loaded in this process: list of dicts (api, version, threads, file)."""
    names = {"api": "internal_api", "version": "version", "threads": "num_threads", "file": "filepath"}
    return [{ours: pool[theirs] for ours, theirs in names.items()} for pool in threadpoolctl.threadpool_info()]


def pin_threads() -> None:
    """Limit the thread pools to the number that the environment sets.

    ``pg_mpi`` sets the variables on import. This limits libraries loaded before, or that read other variables.
    """
    asked = (os.environ.get(name, "").split(",")[0].strip() for name in THREAD_VARIABLES)  # OpenMP allows lists
    wanted = max((int(value) for value in asked if value.isdigit()), default=1)
    if blas_threads() > wanted:
        threadpoolctl.threadpool_limits(wanted)


def cores() -> list[int] | None:
    """Hardware threads that this process may use, sorted; None where unknown."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None


def spell(numbers: Sequence[int] | None) -> str:
    """Format sorted numbers as ranges: [0, 1, 2, 5] → ``0-2,5``; ``unknown`` without any."""
    if not numbers:
        return "unknown"
    groups = itertools.groupby(enumerate(numbers), lambda place: place[1] - place[0])  # constant within a range
    runs = [[number for _, number in group] for _, group in groups]
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def numbers(spelled: str) -> list[int]:
    """Parse ranges: ``0-2,5`` → [0, 1, 2, 5]; ``unknown`` and an empty text → []."""
    borders = re.findall(r"(\d+)(?:-(\d+))?", spelled)
    return [n for first, last in borders for n in range(int(first), int(last or first) + 1)]


def describe() -> dict[str, Any]:
    """Host, cores and threads of this rank, for the start banner and config.json."""
    return {
        "host": platform.node(),
        "cores": spell(cores()),
        "threads": blas_threads(),
        "blas": "+".join(sorted({pool["api"] for pool in pools()})),
    }
