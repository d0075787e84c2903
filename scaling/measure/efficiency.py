"""Summarise a sweep: rows, efficiency relative to the fewest ranks, and a text table."""

import statistics

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
    lines = [
        f"{'ranks':>6}{'steps/s':>11}{'a rank':>8}{'efficiency':>12}{'updates/s':>11}{'CPU':>7}{'Gflop/s':>9}"
        f"{'MB':>6}{'stolen':>8}"
    ]
    for row in rows:
        lines.append(
            f"{row['ranks']:>6}{row['sps']:>11,.0f}{row['sps'] / row['ranks']:>8,.0f}{row['efficiency']:>12.1%}"
            f"{row['updates_per_s']:>11.3g}{row['cpu_util']:>7.0%}{row['gflops']:>9.2f}{row['rss_mb']:>6,.0f}{row['stolen']:>8.1%}"
        )
    names = list(rows[0]["phase_share"])
    lines += ["", f"{'ranks':>6}{'':>8}" + "".join(f"{name:>10}" for name in names)]
    for row in rows:
        for head, label, key in ((row["ranks"], "mean", "phase_share"), ("", "slowest", "phase_max_share")):
            shares = "".join(f"{row[key][name]:>10.1%}" if name in row[key] else f"{'':>10}" for name in names)
            lines.append(f"{head:>6} {label:>7}{shares}")
    lines += ["", "stolen: share of processor time that the host gave to other machines"]
    return "\n".join(lines)
