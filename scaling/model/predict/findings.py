"""Summary of a prediction: numbers, a text table, and where more ranks stop paying."""

import math

from pg_mpi.config.errors import counted

PAYS = 0.1  # a doubling of the ranks pays if it adds at least this share of steps/s


def verdict(rows):
    """Maximum steps/s, ranks at half efficiency, and the last doubling that pays."""
    best = max(rows, key=lambda row: row["sps"])
    half = [row["ranks"] for row in rows if row["efficiency"] >= 0.5]
    pays = rows[0]["ranks"]
    for row, more in zip(rows, rows[1:]):
        if more["sps"] < row["sps"] * (1 + PAYS) ** math.log2(more["ranks"] / row["ranks"]):
            break
        pays = more["ranks"]
    return {"peak": {"ranks": best["ranks"], "sps": best["sps"]}, "half_efficiency": half[-1], "pays_to": pays}


def table(result):
    """Format the prediction as text."""
    costs = result["costs"]
    us = {name: 1e6 * seconds for name, seconds in costs.items() if name.endswith("_s")}
    lengths, games = costs["lengths"], "no game ended"
    if lengths:
        games = f"games of {min(lengths):,.0f} to {max(lengths):,.0f} steps, mean {sum(lengths) / len(lengths):,.0f}"
    ranks = counted(costs["ranks"], "rank")
    lines = [
        f"measured on {ranks}: a step {us['play_s']:.0f} us (noise {costs['noise']:.1%}), a sample "
        f"and epoch {us['sample_s']:.1f} us, a minibatch {us['call_s']:.1f} us, a MB of its exchange "
        f"{1e6 * us['byte_s']:.1f} us and in the optimizer {1e6 * us['step_s']:.1f} us, an update "
        f"{us['round_s'] / 1000:.1f} ms more on rank 0; {games}",
        f"network: {result['network']}; memory of a node: {result['memory_gb_s']:.0f} GB/s",
        "",
        f"{'ranks':>9}{'steps/s':>14} {'efficiency':>12}{'waiting':>9}{'allreduce':>11}{'optimizer':>11}{'saves':>7}"
        f"{'exchanges':>11}{'MB':>13}{'node-h/1e9':>12}{'measured':>11}{'error':>8}",
    ]
    for row in result["rows"]:
        beside = f"{row['measured']:>11,.0f}{row['error']:>8.1%}" if "measured" in row else ""
        lines.append(
            f"{row['ranks']:>9,}{row['sps']:>14,.0f}{'*' if row['extrapolated'] else ' '}{row['efficiency']:>12.1%}"
            f"{row['wait_fraction']:>9.1%}{row['allreduce_fraction']:>11.1%}{row['optimizer_fraction']:>11.1%}"
            f"{row['save_fraction']:>7.1%}{row['exchanges_per_update']:>11,.0f}"
            f"{row['bytes_per_update'] / 1e6:>13,.0f}{row['node_hours_per_1e9_steps']:>12,.2f}{beside}"
        )
    peak = result["peak"]
    lines += [
        "",
        "* extrapolated: more ranks than were measured",
        f"a doubling of the ranks adds at least {PAYS:.0%} steps/s up to {result['pays_to']:,} ranks; efficiency is at "
        f"least 50% up to {result['half_efficiency']:,}; the maximum is {peak['sps']:,.0f} steps/s on "
        f"{peak['ranks']:,}",
    ]
    return "\n".join(lines)
