"""Costs and shares of each part from the measured speeds, as numbers and as a table."""

import numpy as np

from pg_mpi.config.errors import counted
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
    fastest, rows = max(speeds["emulator"]), {}
    for name, label, base in PARTS:
        each = np.array(speeds[name])
        sps = float(np.median(each))
        us = 1e6 * ranks / sps
        added = us - (rows[base]["us_per_step"] if base else 0)
        rows[name] = {
            "part": name,
            "label": label,
            "sps": round(sps, 1),
            "us_per_step": round(us, 2),
            "cost_us": round(-added if base == "train" else added, 2),
            "share": float(np.median(each / speeds["emulator"])),
            "spread": round(float(np.ptp(each)) / sps, 4),
            "sps_each": each.round(1).tolist(),
        }
    return {
        "play_ratio": rows["play"]["share"],
        "ratio": rows["train"]["share"],
        "fastest": {"play_ratio": max(speeds["play"]) / fastest, "ratio": max(speeds["train"]) / fastest},
        "parts": list(rows.values()),
    }


def table(result):
    """Format the result as text."""
    columns = {"part": "label", "steps/s": "sps", "µs/step": "us_per_step"}
    columns |= {"its µs": "cost_us", "of emulator": "share", "spread": "spread"}
    ranks = counted(result["ranks"], "rank")
    lines = [
        f"{result['preset']}, {ranks} on {result['cores']} usable hardware threads ({result['cpu']})"
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
