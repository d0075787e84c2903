"""Compare runs on virtual ranks."""

import itertools
import math
import statistics

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
    found = {"ranks": rows[0]["ranks"], "seed": "median"}
    for name in rows[0].keys() - found.keys():
        middle = statistics.median(math.inf if row[name] is None else row[name] for row in rows)
        found[name] = None if middle == math.inf else middle
    return found


def table(results, rows):
    """Format the ``rows`` of results as text, and their ``medians`` where an N has several."""
    groups = [list(group) for _, group in itertools.groupby(rows, key=lambda row: row["ranks"])]
    rows = [row for group in groups for row in (*group, *([medians(group)] if len(group) > 1 else []))]
    titles = {"above_0": "above 0", "at_target": f"at least {results[0]['target']:g}"}
    costs = "".join(f"{title + ': s':>18}{'core-h':>9}{'M steps':>9}" for title in titles.values())
    lines = [f"{'ranks':>6}{'seed':>8}{'steps/s':>10}{costs}{'score':>8}{'after s':>9}"]
    for each in rows:
        costs = "".join(
            _costs(*(each[f"{name}_{key}"] for key in ("wall_s", "core_hours", "env_steps"))) for name in SCORES
        )
        score = "-" if each["score"] is None else f"{each['score']:+.1f}"
        lines.append(f"{each['ranks']:>6}{each['seed']:>8}{each['sps']:>10,.0f}{costs}{score:>8}{each['end_s']:>9,.0f}")
    result = results[0]
    lines.append(
        f"network {result['network']}, {result['ranks_per_node']} ranks a node, {result['cpu']}; the clock is virtual: "
        "each rank's own measured time, the wait for the slowest, and the modelled exchange"
    )
    return "\n".join(lines)


def _costs(wall, core_hours, env_steps):
    return f"{wall:>18,.0f}{core_hours:>9.2f}{env_steps / 1e6:>9.2f}" if wall else f"{'not reached':>18}{'':>18}"
