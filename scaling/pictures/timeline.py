"""Figures of events over time."""

from pg_mpi.files.figure_file import axes_of
from scaling.pictures.frame import COLOURS


def draw_trace(path, events, updates):
    """Draw two lines per rank for some updates, its phases and the parts of play, on the common clock."""
    chosen = [event for event in events if event["ph"] == "X" and event["args"]["update"] in updates]
    ranks = sorted({event["pid"] for event in chosen})
    with axes_of(path, size=(11, 1.2 + 0.7 * len(ranks))) as axes:
        begun = min(event["ts"] for event in chosen)
        for name in COLOURS:
            named = [event for event in chosen if event["name"] == name]
            for event in named:
                height = 0.42 if event["tid"] == 0 else 0.22
                base = event["pid"] - (0.3 if event["tid"] == 0 else -0.14)
                left, width = (event["ts"] - begun) / 1e3, event["dur"] / 1e3
                axes.barh(base, width, height, left, color=COLOURS[name], align="edge", linewidth=0)
            if named:
                axes.barh(0, 0, color=COLOURS[name], label=name)
        axes.set(xlabel="milliseconds on rank 0's clock", yticks=ranks, yticklabels=[f"rank {rank}" for rank in ranks])
        axes.invert_yaxis()
        axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)


def draw_lockstep(path, rows, spans):
    """Draw a timeline for each way, one line per environment: steps dark, slow steps red, waiting pale."""
    with axes_of(path, rows=len(rows), size=(11, 1.9 * len(rows))) as all_axes:
        width = min(max(end for _, _, end in rank[-1:]) for way in spans for rank in spans[way])
        for axes, row in zip(all_axes, rows):
            for rank, blocks in enumerate(spans[row["way"]]):
                for name, start, end in blocks:
                    colour = {"wait": "#f0e3d0", "slow": COLOURS["wait"]}.get(name, COLOURS["emulator"])
                    axes.barh(rank, end - start, 0.8, start, color=colour, edgecolor="white", linewidth=0.3)
            axes.set(xlim=(0, width), yticks=[], ylabel="environments")
            axes.set_title(f"{row['way']}: {row['ms_per_step']:.1f} ms a step, idle {row['idle']:.0%}", loc="left")
        all_axes[-1].set(xlabel="seconds; dark: a step, red: a slow step, pale: waiting for another environment")


def draw_waiting(path, result):
    """Draw the share of waiting against ranks, measured (dots) and modelled (lines), for both modes."""
    with axes_of(path) as axes:
        for colour, mode in (("C3", "episode"), ("C0", "steps")):
            runs = [run for run in result["runs"] if run["mode"] == mode]
            label = "whole games" if mode == "episode" else "fixed steps"
            for crowded, face in ((False, colour), (True, "white")):
                dots = [run for run in runs if run["oversubscribed"] == crowded]
                if dots:
                    heights = [run["wait_share"] for run in dots]
                    note = f"{label}, measured" + (", sharing cores" if crowded else "")
                    axes.scatter(
                        [run["ranks"] for run in dots], heights, 28, face, edgecolor=colour, zorder=3, label=note
                    )
            if waits := result["modelled"].get(mode):
                ranks = [int(n) for n in waits]
                axes.plot(ranks, list(waits.values()), color=colour, linewidth=1.2, label=f"{label}, modelled")
        axes.set(xscale="log", xlabel="ranks", ylabel="share of the time spent waiting", ylim=(0, None))
        axes.legend(frameon=False)
        axes.set_title("Waiting for the longest game")
