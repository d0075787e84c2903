"""Costs and shares of each part from the measured speeds, as numbers and as a table."""

import statistics

from scaling.tables import aligned

#: Every part: name, label, and the part whose time is subtracted for its cost.
PARTS = (
    ("emulator", "emulator alone", None),
    ("features", "+ features", "emulator"),
    ("inference", "+ inference, sampling", "features"),
    ("play", "+ recording: full play", "inference"),
    ("train", "+ learning: training", "play"),
    ("no_exchange", "training, stub: ranks alone", "train"),
)


def summary(speeds, ranks):
    """Summarise the speeds of each part, a list of steps/s over all ranks each.

    ``us_per_step``: microseconds of one rank. ``cost_us``: time that the part adds, or that a stub removes.
    ``share``: of the emulator's speed in the same repeat, whose measurements follow one another; the median over the
    repeats. ``spread``: largest minus smallest speed, divided by the median. ``fastest``: the ratios of the fastest
    measurements, because other load only reduces speeds.
    """
    medians = {name: round(statistics.median(values), 1) for name, values in speeds.items()}
    fastest = {name: max(values) / max(speeds["emulator"]) for name, values in speeds.items()}
    shares = {name: _paired(values, speeds["emulator"]) for name, values in speeds.items()}
    per_step = {name: 1e6 * ranks / sps for name, sps in medians.items()}
    rows = []
    for name, label, base in PARTS:
        cost = per_step[name] - per_step[base] if base else per_step[name]
        rows.append(
            {
                "part": name,
                "label": label,
                "sps": medians[name],
                "us_per_step": round(per_step[name], 2),
                "cost_us": round(-cost if base == "train" else cost, 2),
                "share": shares[name],
                "spread": round((max(speeds[name]) - min(speeds[name])) / medians[name], 4),
                "sps_each": [round(sps, 1) for sps in speeds[name]],
            }
        )
    return {
        "play_ratio": shares["play"],
        "ratio": shares["train"],
        "fastest": {"play_ratio": fastest["play"], "ratio": fastest["train"]},
        "parts": rows,
    }


def _paired(values, others):
    """Median of the ratios of the measurements of each repeat."""
    return statistics.median(value / other for value, other in zip(values, others))


def table(result):
    """Format the result as text."""
    columns = {"part": "label", "steps/s": "sps", "µs/step": "us_per_step"}
    columns |= {"its µs": "cost_us", "of emulator": "share", "spread": "spread"}
    lines = [
        f"{result['preset']}, {result['ranks']} ranks on {result['cores']} usable hardware threads ({result['cpu']})"
        + (": they share cores" if result["ranks"] > result["cores"] else ""),
        f"medians of {result['repeats']} repeats, {result['seconds']:g} s each; steps/s of all ranks, µs of one rank",
        "",
        aligned([{head: row[name] for head, name in columns.items()} for row in result["parts"]]),
        "",
        f"play is {result['play_ratio']:.1%} and training {result['ratio']:.1%} of the emulator's speed; by "
        f"the fastest measurement of each, least affected by other load, {result['fastest']['play_ratio']:.1%} and "
        f"{result['fastest']['ratio']:.1%}. The stub's own µs are the cost of exchange and waiting in training.",
        f"measured up to step {result['env_steps']:,} of training, "
        + (f"{result['length_mean']:,.0f} steps a game" if result["length_mean"] else "before the first game's end")
        + ": speeds depend on the games",
    ]
    return "\n".join(lines)
