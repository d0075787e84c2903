"""Compare runs on virtual ranks."""

import itertools
import math
import statistics

from scaling.tables import aligned

SCORES = ("above_0", "at_target")


def compare(results):
    """The ``row`` of each result, by N and seed."""
    return [row(result) for result in sorted(results, key=lambda result: (result["ranks"], result["seed"]))]


def row(result):
    """One run: the costs to reach each score, or None, the speed, and the score and time at the end."""
    ranks, end, costs = result["ranks"], result["end"], {}
    for name in SCORES:
        reached = result[name] or {}
        wall = reached.get("wall_s")
        costs[f"{name}_wall_s"] = wall
        costs[f"{name}_core_hours"] = wall and wall * ranks / 3600
        costs[f"{name}_env_steps"] = reached.get("env_steps")
    return {
        "ranks": ranks,
        "seed": result["seed"],
        **costs,
        "sps": end["sps_total"],
        "score": end["return_mean"],
        "end_s": end["wall_s"],
    }


def medians(rows):
    """The median of each column of rows with the same N, in a row whose seed is ``median``. None counts as infinite."""
    found = {}
    for name in rows[0]:
        middle = statistics.median(math.inf if row[name] is None else row[name] for row in rows)
        found[name] = None if middle == math.inf else middle
    return found | {"seed": "median"}


def table(rows):
    """A table of the ``rows``, and of their ``medians`` where an N has several."""
    groups = [list(group) for _, group in itertools.groupby(rows, key=lambda row: row["ranks"])]
    rows = [row for group in groups for row in (*group, *([medians(group)] if len(group) > 1 else []))]
    return aligned(rows)
