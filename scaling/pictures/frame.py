"""Colours and stacked bars of phases."""

from pg_mpi.report.figures import PHASES

#: A colour for each phase, as in the report of a run.
COLOURS = PHASES | {"play": "#d8e8df"}


def draw_phases(axes, bars):
    """Draw a stacked bar for each (label, shares by phase)."""
    bottoms = [0.0] * len(bars)
    for name in bars[0][1]:
        heights = [max(shares[name], 0) for _, shares in bars]
        if max(heights) >= 0.002:
            axes.bar([label for label, _ in bars], heights, 0.6, bottoms, color=COLOURS[name], label=name)
        bottoms = [bottom + height for bottom, height in zip(bottoms, heights)]
    axes.legend(*(each[::-1] for each in axes.get_legend_handles_labels()), loc="center left", bbox_to_anchor=(1, 0.5))
    axes.get_legend().set_frame_on(False)
