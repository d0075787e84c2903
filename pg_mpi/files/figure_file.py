"""Figures by matplotlib, which is imported only when one is drawn. Needs the extra ``plot``."""

import contextlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from typing import IO, Any

import numpy as np

from pg_mpi.config.parsers import check_extra, check_output


@contextlib.contextmanager
def axes_of(
    path: str | os.PathLike[str] | IO[bytes],
    columns: int = 1,
    size: tuple[float, float] = (8, 4.2),
    kind: str | None = None,
) -> Iterator[Any]:
    """Context with the axes of a figure, or a row of them; saves it to ``path`` at the end. ``kind``: its format."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, columns, figsize=size, layout="constrained")
    yield axes
    for each in np.ravel(axes):
        each.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110, format=kind)
    plt.close(figure)


def check_picture(path: str) -> None:
    """Raise ``UsageError`` unless a figure can be written to the ``path`` of ``--picture``."""
    check_extra("matplotlib", "plot", "--picture")
    check_output(path, "--picture", (".png", ".svg", ".pdf"))


def picture(draw: Callable[..., object], path: str | os.PathLike[str], *content: Any) -> str | None:
    """Draw ``path`` with ``draw(path, *content)`` and return it; None, with a message, without matplotlib."""
    if importlib.util.find_spec("matplotlib"):
        draw(path, *content)
        return str(path)
    print("no picture without matplotlib: pip install 'pg_mpi[plot]'", file=sys.stderr)
    return None
