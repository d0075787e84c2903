"""Compare runs on virtual ranks: the fastest N, the cheapest N, and where more ranks do not help."""

import math

#: A doubling of the ranks that saves less than this share of the time does not pay.
WORTH = 0.1
COSTS = ("wall_s", "core_hours", "env_steps")
SCORES = ("above_0", "at_target")


def answer(results, deadline):
    """Analyse the results: a JSON-able dict.

    Returns:
        ``rows`` (a dict for each N), ``deadline`` (``seconds`` and for each score the fewest ``ranks`` that meet it),
        ``best`` (for each score the N with the least time) and ``enough`` (for each score the N after which none saves
        ``WORTH`` of the time per doubling). None if no run reached the score.
    """
    rows = [row(result) for result in sorted(results, key=lambda result: result["ranks"])]
    said = {"rows": rows, "deadline": {"seconds": deadline}, "best": {}, "enough": {}}
    for name in SCORES:
        there = [(each["ranks"], each[name]["wall_s"]) for each in rows if each[name]]
        said["deadline"][name] = next((ranks for ranks, wall in there if wall <= deadline), None)
        said["best"][name] = min(there, key=lambda pair: pair[1])[0] if there else None
        said["enough"][name] = enough(there)
    return said


def row(result):
    """One N: the costs to reach each score, the speed, and the score and time at the end."""
    end, ranks = result["end"], result["ranks"]
    costs = {}
    for name in SCORES:
        found = result[name]
        costs[name] = found and {
            "wall_s": found["wall_s"],
            "core_hours": found["wall_s"] * min(ranks, result.get("cores_shared") or ranks) / 3600,
            "env_steps": found["env_steps"],
        }
    return {"ranks": ranks, **costs, "sps": end["sps_total"], "score": end["return_mean"], "end_s": end["wall_s"]}


def flat(each):
    """Flatten a ``row`` for a CSV file. Empty cells: the score was not reached."""
    costs = {f"{name}_{key}": (each[name] or {}).get(key, "") for name in SCORES for key in COSTS}
    return {"ranks": each["ranks"], **costs, **{key: each[key] for key in ("sps", "score", "end_s")}}


def enough(there):
    """The first N of (N, seconds) pairs after which no larger N saves enough; None if the last one still pays.

    All larger N are compared, because the time can vary by a factor of two between seeds.
    """
    for place, (ranks, wall) in enumerate(there[:-1], start=1):
        if all(less > wall * (1 - WORTH) ** math.log2(more / ranks) for more, less in there[place:]):
            return ranks
    return None


def table(results, said):
    """Format the answer as text."""
    titles = {"above_0": "above 0", "at_target": f"at least {results[0]['target']:g}"}
    lines = [
        f"{'ranks':>6}{'steps/s':>10}"
        + "".join(f"{title + ': s':>18}{'core-h':>9}{'M steps':>9}" for title in titles.values())
        + f"{'score':>8}{'after s':>9}"
    ]
    for each in said["rows"]:
        cells = "".join(
            f"{found['wall_s']:>18,.0f}{found['core_hours']:>9.2f}{found['env_steps'] / 1e6:>9.2f}"
            if (found := each[name])
            else f"{'not reached':>18}{'':>18}"
            for name in SCORES
        )
        score = "-" if each["score"] is None else f"{each['score']:+.1f}"
        lines.append(f"{each['ranks']:>6}{each['sps']:>10,.0f}{cells}{score:>8}{each['end_s']:>9,.0f}")
    lines.append("")
    for name, title in titles.items():
        best, fewest, last = said["best"][name], said["deadline"][name], said["enough"][name]
        if best is None:
            lines.append(f"{title}: not reached by any run")
            continue
        limit = said["deadline"]["seconds"]
        within = f"{fewest} are enough for {limit:,.0f} s" if fewest else f"not reached within {limit:,.0f} s"
        more = f"beyond {last} a doubling saves less than {WORTH:.0%}" if last else "more ranks still pay"
        lines.append(f"{title}: fastest on {best} ranks; {within}; {more}")
    result = results[0]
    lines.append(
        f"network {result['network']}, {result['ranks_per_node']} ranks a node, {result['cpu']}; the clock is virtual: "
        "each rank's own measured time, the wait for the slowest, and the modelled exchange"
    )
    return "\n".join(lines)
