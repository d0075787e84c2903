"""Figures by matplotlib, which is imported only when one is drawn. Needs the extra ``plot``."""

import contextlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from pg_mpi.config.errors import UsageError


@contextlib.contextmanager
def axes_of(
    path: str | os.PathLike[str], columns: int = 1, rows: int = 1, size: tuple[float, float] = (8, 4.2)
) -> Iterator[Any]:
    """Context with the axes of a figure, or a row or column of them; saves it to ``path`` at the end."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(rows, columns, figsize=size, layout="constrained")
    yield axes
    for each in np.ravel(axes):
        each.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def check_picture(path: str, flag: str) -> None:
    """Raise ``UsageError`` unless a figure can be written to ``path``."""
    if not importlib.util.find_spec("matplotlib"):
        raise UsageError(f"{flag} needs matplotlib: pip install 'pg_mpi[plot]'")
    folder, suffix = os.path.dirname(path) or ".", os.path.splitext(path)[1]
    if suffix not in (".png", ".svg", ".pdf"):
        raise UsageError(f"{flag} {path} must end in .png, .svg or .pdf")
    if not os.access(folder, os.W_OK):
        raise UsageError(f"{flag} {path} cannot be written: give a file in another folder")


def picture(draw: Callable[..., object], path: str | os.PathLike[str], *content: Any) -> str | None:
    """Draw ``path`` with ``draw(path, *content)`` and return it; None, with a message, without matplotlib."""
    if importlib.util.find_spec("matplotlib"):
        draw(path, *content)
        return str(path)
    print("no picture without matplotlib: pip install 'pg_mpi[plot]'", file=sys.stderr)
    return None
