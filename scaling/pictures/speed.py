"""Figures of steps/s against ranks."""

import numpy as np

from pg_mpi.files.figure_file import axes_of
from scaling.model import scaling_laws
from scaling.pictures.frame import COLOURS, draw_phases


def draw_sweep(path, rows, ranks, sps, targets):
    """Draw steps/s against ranks with perfect scaling and the laws (left), and the phase shares (right)."""
    with axes_of(path, columns=2, size=(11, 4.4)) as (speed, share):
        _laws(speed, ranks, sps, targets, reach=2)
        first = rows[0]
        reach = [first["ranks"], speed.get_xlim()[1]]
        perfect = [first["sps"] / first["ranks"] * n for n in reach]
        speed.plot(reach, perfect, color="0.6", linewidth=1, linestyle=":", label="perfect", scalex=False, scaley=False)
        speed.legend(loc="upper left", frameon=False)
        for row in rows:
            speed.annotate(f"{row['efficiency']:.0%}", (row["ranks"], row["sps"]), (5, -11), textcoords="offset points")
        speed.set_title("Steps/s, and efficiency")
        draw_phases(share, [(str(row["ranks"]), row["phase_share"]) for row in rows])
        share.set(xlabel="ranks", ylabel="share of the wall time, mean of ranks")


def draw_fit(path, ranks, sps, targets):
    """Draw the points, the fitted laws with 95 % bands, and the target speeds."""
    with axes_of(path) as axes:
        _laws(axes, ranks, sps, targets, reach=20)
        axes.legend(loc="upper left", frameon=False)
        axes.set_title("Steps/s against ranks: fitted laws with 95 % bands")


def _laws(axes, ranks, sps, targets, reach):
    """Draw points, laws and bands, up to the targets within ``reach`` times the most ranks."""
    most, fits = max(ranks), [scaling_laws.fit(law, ranks, sps, targets) for law in scaling_laws.LAWS]
    needed = [n["ranks"] for fit in fits for n in fit.get("needed", []) if n["ranks"] and n["ranks"] <= reach * most]
    wanted = np.linspace(1, max([1.25 * most, *(1.1 * n for n in needed)]), 200)
    shown = []
    for colour, (law, fit) in enumerate(zip(scaling_laws.LAWS, fits)):
        if "problem" not in fit:
            middle, low, high = scaling_laws.band(law, ranks, sps, wanted)
            axes.plot(wanted, middle, color=f"C{colour}", linewidth=1.3, label=law.name)
            axes.fill_between(wanted, low, high, color=f"C{colour}", alpha=0.12, linewidth=0)
            shown.append(middle[np.isfinite(middle)].max())
    axes.scatter(ranks, sps, color="black", s=18, zorder=3)
    for target in targets:
        if target <= 1.3 * max([*shown, *sps]):
            axes.axhline(target, color="0.7", linewidth=0.8, linestyle="--", zorder=0)
    axes.set(xlabel="ranks", ylabel="steps/s of all ranks", xlim=(0, wanted[-1]))
    axes.set_ylim(0, 1.15 * max([*sps, *shown, *(t for t in targets if shown and t <= 1.3 * max(shown))]))


def draw_predict(path, result):
    """Draw predicted and measured steps/s (left), and the shares of waiting and exchange (right)."""
    rows = result["rows"]
    ranks = [row["ranks"] for row in rows]
    with axes_of(path, columns=2, size=(11, 4.2)) as (speed, share):
        speed.plot(ranks, [row["sps"] for row in rows], color="C0", label="predicted")
        perfect = [rows[0]["sps"] / rows[0]["ranks"] * n for n in ranks]
        speed.plot(ranks, perfect, color="0.6", linestyle=":", linewidth=1, label="perfect")
        known = [row for row in rows if "measured" in row]
        if known:
            points = [row["ranks"] for row in known], [row["measured"] for row in known]
            speed.scatter(*points, color="black", s=20, zorder=3, label="measured")
        if result["pays_to"] < ranks[-1]:
            at, colour = result["pays_to"], COLOURS["wait"]
            speed.axvline(at, color=colour, linewidth=0.9, linestyle="--")
            speed.text(at, 0.02, f" pays up to {at:,}", transform=speed.get_xaxis_transform(), color=colour)
        speed.set(xscale="log", yscale="log", xlabel="ranks", ylabel="steps/s of all ranks")
        speed.legend(loc="upper left", frameon=False)
        waits, sent = ([row[key] for row in rows] for key in ("wait_fraction", "allreduce_fraction"))
        rest = [1 - wait - send for wait, send in zip(waits, sent)]
        colours = (COLOURS["wait"], COLOURS["allreduce"], "#b7d8c5")
        names = ("waiting for the slowest", "exchange", "play and learning")
        share.stackplot(ranks, waits, sent, rest, colors=colours, labels=names, linewidth=0)
        share.set(xscale="log", ylim=(0, 1), xlim=(ranks[0], ranks[-1]), xlabel="ranks", ylabel="share of the time")
        share.legend(loc="upper right")
