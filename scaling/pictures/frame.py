"""What all pictures share: the figure, its file, and a colour for each phase. Needs the extra ``plot``."""

import contextlib

import numpy as np

from pg_mpi.report.theme import PHASES

#: A colour for each phase, as on a run's page.
COLOURS = PHASES | {"play": "#d8e8df"}


@contextlib.contextmanager
def axes_of(path, columns=1, rows=1, size=(8, 4.2)):
    """The axes of one picture, or a row or column of them, saved at the end."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(rows, columns, figsize=size, layout="constrained")
    yield axes
    for each in np.ravel(axes):
        each.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def draw_phases(axes, bars):
    """A stacked bar for each (label, shares by phase)."""
    bottoms = [0.0] * len(bars)
    for name in bars[0][1]:
        heights = [max(shares[name], 0) for _, shares in bars]
        if max(heights) >= 0.002:
            axes.bar([label for label, _ in bars], heights, 0.6, bottoms, color=COLOURS[name], label=name)
        bottoms = [bottom + height for bottom, height in zip(bottoms, heights)]
    axes.legend(*(each[::-1] for each in axes.get_legend_handles_labels()), loc="center left", bbox_to_anchor=(1, 0.5))
    axes.get_legend().set_frame_on(False)
