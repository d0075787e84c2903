"""Compare runs on virtual ranks."""

import itertools

from scaling.tables import aligned, medians

SCORES = ("above_0", "at_target")


def compare(results):
    """A row for each run, by N and seed: the costs to reach each score, or None; speed, score, time; commit."""
    rows = []
    for result in sorted(results, key=lambda result: (result["ranks"], result["seed"])):
        row, end = {name: result[name] for name in ("ranks", "seed")}, result["end"]
        for name in SCORES:
            reached = result[name] or {"wall_s": None, "env_steps": None}
            wall = reached["wall_s"]
            row[f"{name}_wall_s"] = wall
            row[f"{name}_core_hours"] = wall and wall * row["ranks"] / 3600
            row[f"{name}_env_steps"] = reached["env_steps"]
        row |= {"sps": end["sps_total"], "score": end["return_mean"], "end_s": end["wall_s"]}
        rows.append(row | {"commit": result["commit"]})
    return rows


def table(rows):
    """A table of the rows of ``compare``, and of their medians where an N has several."""
    rows = [{name: value for name, value in row.items() if name != "commit"} for row in rows]
    groups = [list(group) for _, group in itertools.groupby(rows, key=lambda row: row["ranks"])]
    rows = [
        row for group in groups for row in (*group, *([medians(group) | {"seed": "median"}] if len(group) > 1 else []))
    ]
    return aligned(rows)
