"""Figures of events over time."""

from pg_mpi.files.figure_file import axes_of
from scaling.pictures.frame import COLOURS


def draw_trace(path, events, updates, ranks):
    """Draw two lines for each of some ranks in some updates, its phases and the parts of play, on the common clock."""
    row = {rank: number for number, rank in enumerate(ranks)}
    chosen = [e for e in events if e["ph"] == "X" and e["args"]["update"] in updates and e["pid"] in row]
    with axes_of(path, size=(11, 1.2 + 0.7 * len(ranks))) as axes:
        begun = min(event["ts"] for event in chosen)
        for name in COLOURS:
            named = [event for event in chosen if event["name"] == name]
            for event in named:
                height = 0.42 if event["tid"] == 0 else 0.22
                base = row[event["pid"]] - (0.3 if event["tid"] == 0 else -0.14)
                left, width = (event["ts"] - begun) / 1e3, event["dur"] / 1e3
                axes.barh(base, width, height, left, color=COLOURS[name], align="edge", linewidth=0)
            if named:
                axes.barh(0, 0, color=COLOURS[name], label=name)
        axes.set(xlabel="milliseconds on rank 0's clock", yticks=range(len(ranks)))
        axes.set_yticklabels([f"rank {rank}" for rank in ranks])
        axes.invert_yaxis()
        axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
