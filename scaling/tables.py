"""Results → Markdown tables: medians, and the spread beside them."""

import math
import statistics


def seeds_table(results):
    """The five-seed table: one column a preset, one row a question; ``median (lowest to highest), how many``."""
    presets = list(dict.fromkeys(result["preset"] for result in results))
    groups = {preset: [r for r in results if r["preset"] == preset] for preset in presets}
    rows = [
        ("seconds until above 0", lambda r: _get(r["above_0"], "wall_s"), "{:.0f}"),
        ("... agent steps, thousands", lambda r: _get(r["above_0"], "env_steps", 1e3), "{:,.0f}"),
        ("... frames, millions", lambda r: _get(r["above_0"], "frames", 1e6), "{:.2f}"),
        ("... core-seconds", lambda r: _get(r["above_0"], "core_s"), "{:.0f}"),
        ("seconds until at least 18", lambda r: _get(r["at_18"], "wall_s"), "{:.0f}"),
        ("... agent steps, thousands", lambda r: _get(r["at_18"], "env_steps", 1e3), "{:,.0f}"),
        ("... frames, millions", lambda r: _get(r["at_18"], "frames", 1e6), "{:.2f}"),
        ("... core-seconds", lambda r: _get(r["at_18"], "core_s"), "{:.0f}"),
        ("seconds until the ancestor's criterion", lambda r: r["rate_above_0_s"], "{:.0f}"),
        ("score at the end, last 100 games", lambda r: r["end"]["return_mean"], "{:+.1f}"),
        ("steps/s, start-up included", lambda r: r["end"]["sps_total"], "{:,.0f}"),
        ("resident MB, largest rank", lambda r: r["end"]["rss_mb"], "{:.0f}"),
    ]
    table = [
        "| | " + " | ".join(f"{p}, {len(groups[p])} seeds" for p in presets) + " |",
        "|---" * (len(presets) + 1) + "|",
    ]
    for name, value, form in rows:
        table.append(f"| {name} | " + " | ".join(_spread(map(value, groups[p]), form) for p in presets) + " |")
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
    """The median of the evaluations that there are."""
    scores = list(scores)
    known = [score for score in scores if score is not None]
    some = f", {len(known)} of {len(scores)} played" if len(known) < len(scores) else ""
    return _spread(known, "{:+.1f}") + some if known else "not played"


def _get(costs, key, unit=1.0):
    return None if costs is None else costs[key] / unit


def _spread(values, form):
    values = list(values)
    known = [value for value in values if value is not None]
    if not known:
        return "never" if values else ""
    missing = len(values) - len(known)
    median = statistics.median(known + [math.inf] * missing)  # what never came is slower than all that did
    text = "never" if median == math.inf else form.format(median)
    spread = f" ({form.format(min(known))} to {form.format(max(known))})"
    return text + spread + (f", {len(known)} of {len(values)} got there" if missing else "")
