"""Markdown tables of results: median with bootstrap interval, interquartile mean, worst value."""

import math

import numpy as np
from scipy.stats import trim_mean

RESAMPLES = 10_000


def seeds_table(results):
    """Table with a column per preset and a row per quantity. ``spread`` formats the cells."""
    presets = list(dict.fromkeys(result["preset"] for result in results))
    groups = {preset: [r for r in results if r["preset"] == preset] for preset in presets}
    rows = []
    for name, key in (("above 0", "above_0"), ("a mean of 15", "at_15"), ("a mean of 18", "at_18")):
        rows.append((f"{name}: million steps", lambda r, key=key: _get(r[key], "env_steps", 1e6), "{:.2f}", True))
        rows.append((f"{name}: seconds", lambda r, key=key: _get(r[key], "wall_s"), "{:.0f}", True))
    rows += [
        ("the 2016 ancestor's criterion: seconds", lambda r: r["rate_above_0_s"], "{:.0f}", True),
        ("score at the end, last 100 games", lambda r: r["end"]["return_mean"], "{:+.1f}", False),
        ("steps/s, start-up included", lambda r: r["end"]["sps_total"], "{:,.0f}", False),
        ("resident MB, largest rank", lambda r: r["end"]["rss_mb"], "{:.0f}", True),
    ]
    table = [
        "| | " + " | ".join(f"{p}, {len(groups[p])} seeds" for p in presets) + " |",
        "|---" * (len(presets) + 1) + "|",
    ]
    for name, value, form, less in rows:
        table.append(f"| {name} | " + " | ".join(spread(map(value, groups[p]), form, less) for p in presets) + " |")
    ways = {(e["sticky"], e["greedy"]) for r in results for e in r.get("evaluations", [])}
    for sticky, greedy in sorted(ways, reverse=True):
        name, value = f"100 games, sticky {sticky:g}, {'greedy' if greedy else 'sampled'}", _evaluation(sticky, greedy)
        table.append(f"| {name} | " + " | ".join(_played(map(value, groups[p])) for p in presets) + " |")
    return "\n".join(table)


def _evaluation(sticky, greedy):
    def value(result):
        found = [e["mean"] for e in result.get("evaluations", []) if (e["sticky"], e["greedy"]) == (sticky, greedy)]
        return found[0] if found else None

    return value


def _played(scores):
    """``spread`` of the evaluations that exist, and their number if some are missing."""
    scores = list(scores)
    known = [score for score in scores if score is not None]
    some = f", {len(known)} of {len(scores)} played" if len(known) < len(scores) else ""
    return spread(known, "{:+.1f}", less=False) + some if known else "not played"


def _get(costs, key, unit=1.0):
    return None if costs is None else costs[key] / unit


def spread(values, form, less):
    """``median [95 % interval of the median], IQM, worst``, and the number of known values if some are None.

    The interval is a percentile bootstrap. ``less``: smaller is better. None counts as infinite.
    """
    values = [math.inf if value is None else value for value in values]
    if not values:
        return ""
    there = sum(value < math.inf for value in values)
    picks = np.random.default_rng(0).choice(values, (RESAMPLES, len(values)))
    low, high = np.quantile(np.median(picks, axis=1), [0.025, 0.975], method="nearest")
    middle, worst = trim_mean(values, 0.25), max(values) if less else min(values)
    text = f"{_said(np.median(values), form)} [{_said(low, form)}, {_said(high, form)}]"
    text += f", IQM {_said(middle, form)}, worst {_said(worst, form)}"
    return text if there == len(values) else f"{text}; {there} of {len(values)}"


def _said(value, form):
    return form.format(value) if value < math.inf else "never"
