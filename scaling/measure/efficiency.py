"""Summarise a sweep: rows, efficiency relative to the fewest ranks, and a text table."""

import statistics

from scaling.tables import aligned

NUMBERS = ("sps", "updates_per_s", "cpu_util", "gflops", "rss_mb", "stolen")


def flat(result):
    """Convert a measurement to a row of ``sweep.csv``."""
    row = {
        name: result[name]
        for name in ("ranks", "repeat", *NUMBERS, "exchanges_per_update", "bytes_per_update", "commit", "time")
    }
    row |= {f"mean_{name}": share for name, share in result["phase_share"].items()}
    row |= {f"slowest_{name}": share for name, share in result["phase_max_share"].items()}
    return {name: float(f"{value:.6g}") if isinstance(value, float) else value for name, value in row.items()}


def summary(results):
    """One row per number of ranks: medians over its repeats, and efficiency relative to the fewest ranks."""
    rows = []
    for ranks in sorted({result["ranks"] for result in results}):
        group = [result for result in results if result["ranks"] == ranks]
        row = {"ranks": ranks, **{name: statistics.median(r[name] for r in group) for name in NUMBERS}}
        shares, slowest = (
            {name: round(statistics.median(result[key][name] for result in group), 4) for name in group[0][key]}
            for key in ("phase_share", "phase_max_share")
        )
        base = rows[0] if rows else row
        row["efficiency"] = round(row["sps"] / ranks / (base["sps"] / base["ranks"]), 4)
        row |= {"wait_fraction": shares["wait"], "repeats": len(group)}
        rows.append(row | {"phase_share": shares, "phase_max_share": slowest})
    return rows


def table(rows):
    """Format the rows as text: speeds, then the phase shares of the mean and of the slowest rank."""
    speeds = [
        {"ranks": row["ranks"], "steps/s": row["sps"]} | {name: row[name] for name in ("efficiency", *NUMBERS[1:])}
        for row in rows
    ]
    shares = [
        {"ranks": row["ranks"], "of rank": of, **{name: row[key].get(name) for name in rows[0]["phase_share"]}}
        for row in rows
        for of, key in (("mean", "phase_share"), ("slowest", "phase_max_share"))
    ]
    stolen = "stolen: share of processor time that the host gave to other machines"
    return "\n\n".join((aligned(speeds), aligned(shares), stolen))
