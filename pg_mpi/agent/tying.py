"""Which parameters make up the first-layer weights of each input: a sparse matrix, inputs x parameter rows.

The policy's first layer is ``table = tie @ first``. An identity tie is an ordinary layer; other ties share
weights between inputs, and the gradient of the shared weights is the adjoint, ``tie.T @ d_table``:

* difference frames: the input "-1 at p" has the negative weights of the input "+1 at p";
* tiles: inputs in the same coarse tile share one more row, so that what is learned at one position serves
  its neighbours at once.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import block_diag, csr_matrix

#: Tile sizes (height, width) of the grids that a first layer is made of: single pixels, square tiles, and bands
#: that keep one coordinate and blur the other. The first grid of each starts at random, the others at zero.
GRIDS = {
    "off": ((1, 1),),
    "on": ((1, 1), (4, 4), (1, 8)),
    "only": ((1, 8), (8, 1), (4, 4)),
}


def pixel_tie(
    shape: tuple[int, int], difference: bool, tiles: str, dtype: Any = np.float32, colours: int = 1, value: float = 1
) -> csr_matrix:
    """The tie of two screens of ``colours`` planes of ``shape`` pixels: csr (2 * colours * pixels, parameter rows).

    Args:
        shape: (height, width) of a plane.
        difference: True if the second screen is the negative of the first; False if the planes are independent.
        tiles: which of ``GRIDS`` share rows.
        value: of an active pixel.
    """
    y, x = np.divmod(np.arange(shape[0] * shape[1]), shape[1])
    columns, start = [], 0
    for height, width in GRIDS[tiles]:
        columns.append(start + y // height * _count(shape[1], width) + x // width)
        start += _count(shape[0], height) * _count(shape[1], width)
    plane = np.stack(columns, axis=1)  # (pixels, grids): the parameter row of each pixel in each grid
    screen = np.concatenate([plane + colour * start for colour in range(colours)])
    start *= colours
    rows = np.concatenate((screen, screen if difference else screen + start))
    values = np.full(rows.shape, value, dtype=dtype)
    if difference:
        values[len(screen) :] = -value
    indptr = np.arange(0, rows.size + 1, rows.shape[1])
    return csr_matrix((values.ravel(), rows.ravel(), indptr), shape=(len(rows), start * (1 if difference else 2)))


def random_rows(shape: tuple[int, int], difference: bool, tiles: str, colours: int = 1) -> NDArray[np.int64]:
    """The parameter rows of ``pixel_tie`` that start at random: those of the first grid, in each plane."""
    counts = [_count(shape[0], height) * _count(shape[1], width) for height, width in GRIDS[tiles]]
    planes = np.arange(colours if difference else 2 * colours)
    return (planes[:, None] * sum(counts) + np.arange(counts[0])).ravel()


def with_own_rows(tie: csr_matrix, groups: NDArray[np.int64], weights: NDArray[np.floating[Any]]) -> csr_matrix:
    """``tie`` with more inputs, each with a parameter row of its own, and one that it shares with its group.

    Args:
        groups: int64 (count,), the group of each new input, from 0; -1 for none.
        weights: (count,), the value that each new input has when it is active.

    Returns:
        csr (inputs + count, rows + count + groups).
    """
    count, members = len(groups), np.flatnonzero(groups >= 0)
    inputs = np.concatenate((np.arange(count), members))
    rows = np.concatenate((np.arange(count), count + groups[members]))
    values = weights[inputs].astype(tie.dtype)
    own = csr_matrix((values, (inputs, rows)), shape=(count, count + groups.max() + 1))
    joined: csr_matrix = block_diag((tie, own), format="csr", dtype=tie.dtype)
    return joined


def _count(length: int, tile: int) -> int:
    """How many tiles cover ``length`` pixels."""
    return -(-length // tile)
