"""Compare runs on virtual ranks: the fastest N, and where more ranks do not help."""

import math

#: A doubling of the ranks that saves less than this share of the time does not pay.
WORTH = 0.1
SCORES = ("above_0", "at_target")


def compare(results):
    """Compare the results: a JSON-able dict.

    Returns:
        ``rows`` (a dict for each N), ``best`` (for each score the N with the least time) and ``enough`` (for each score
        the N after which none saves ``WORTH`` of the time per doubling). None if no run reached the score.
    """
    rows = [row(result) for result in sorted(results, key=lambda result: result["ranks"])]
    found = {"rows": rows, "best": {}, "enough": {}}
    for name in SCORES:
        reached = [(each["ranks"], each[f"{name}_wall_s"]) for each in rows if each[f"{name}_wall_s"]]
        found["best"][name] = min(reached, key=lambda pair: pair[1])[0] if reached else None
        found["enough"][name] = enough(reached)
    return found


def row(result):
    """One N: the costs to reach each score, or None, the speed, and the score and time at the end."""
    ranks, end, costs = result["ranks"], result["end"], {}
    for name in SCORES:
        reached = result[name] or {}
        wall = reached.get("wall_s")
        costs[f"{name}_wall_s"] = wall
        costs[f"{name}_core_hours"] = wall and wall * ranks / 3600
        costs[f"{name}_env_steps"] = reached.get("env_steps")
    return {"ranks": ranks, **costs, "sps": end["sps_total"], "score": end["return_mean"], "end_s": end["wall_s"]}


def enough(reached):
    """The first N of (N, seconds) pairs after which no larger N saves enough; None if the last one still pays.

    All larger N are compared, because the time can vary by a factor of two between seeds.
    """
    for place, (ranks, wall) in enumerate(reached[:-1], start=1):
        if all(less > wall * (1 - WORTH) ** math.log2(more / ranks) for more, less in reached[place:]):
            return ranks
    return None


def table(results, found):
    """Format the comparison ``found`` as text."""
    titles = {"above_0": "above 0", "at_target": f"at least {results[0]['target']:g}"}
    costs = "".join(f"{title + ': s':>18}{'core-h':>9}{'M steps':>9}" for title in titles.values())
    lines = [f"{'ranks':>6}{'steps/s':>10}{costs}{'score':>8}{'after s':>9}"]
    for each in found["rows"]:
        costs = "".join(
            _costs(*(each[f"{name}_{key}"] for key in ("wall_s", "core_hours", "env_steps"))) for name in SCORES
        )
        score = "-" if each["score"] is None else f"{each['score']:+.1f}"
        lines.append(f"{each['ranks']:>6}{each['sps']:>10,.0f}{costs}{score:>8}{each['end_s']:>9,.0f}")
    result = results[0]
    lines += ["", *(f"{title}: {_advice(found, name)}" for name, title in titles.items())]
    lines.append(
        f"network {result['network']}, {result['ranks_per_node']} ranks a node, {result['cpu']}; the clock is virtual: "
        "each rank's own measured time, the wait for the slowest, and the modelled exchange"
    )
    return "\n".join(lines)


def _costs(wall, core_hours, env_steps):
    return f"{wall:>18,.0f}{core_hours:>9.2f}{env_steps / 1e6:>9.2f}" if wall else f"{'not reached':>18}{'':>18}"


def _advice(found, name):
    best, last = found["best"][name], found["enough"][name]
    if best is None:
        return "not reached by any run"
    more = f"beyond {last} a doubling saves less than {WORTH:.0%}" if last else "more ranks still pay"
    return f"fastest on {best} ranks; {more}"
