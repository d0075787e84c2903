"""Pictures as files. Needs the extra ``plot``; matplotlib is imported only when one is drawn."""

import contextlib
import importlib.util
import sys

import numpy as np


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


def picture(draw, path, *content):
    """``path`` with the picture that ``draw(path, *content)`` makes; None, and a line, where matplotlib is missing."""
    if importlib.util.find_spec("matplotlib"):
        draw(path, *content)
        return str(path)
    print("no picture without matplotlib: pip install 'pg_mpi[plot]'", file=sys.stderr)
    return None
