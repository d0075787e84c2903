"""Which parameters make up the first-layer weights of each input: a sparse matrix, inputs x parameter rows.

The policy's first layer is ``table = tie @ first``. An identity tie is an ordinary layer; other ties share
weights between inputs, and the gradient of the shared weights is the adjoint, ``tie.T @ d_table``:

* difference frames: the input "-1 at p" has the negative weights of the input "+1 at p";
* tiles: inputs in the same coarse tile share one more row, so that what is learned at one position serves
  its neighbours at once;
* mirror: a second tie with the inputs turned upside down, for a policy that is symmetric by construction.
"""

import numpy as np
from scipy.sparse import csr_matrix

#: (rows, columns) of one tile in pixels: square tiles, and bands that keep the row but blur the column.
TILES = ((4, 4), (1, 8))


def pixel_tie(shape, difference, tiles, dtype=np.float32):
    """The tie of two planes of ``shape`` pixels; csr (2 * pixels, parameter rows).

    Args:
        shape: (height, width) of a plane.
        difference: True if plane 1 is the negative of plane 0; False if the planes are independent.
        tiles: True to add the shared rows of ``TILES``.
    """
    grid = _grids(shape, tiles)  # (pixels, terms)
    count = grid.max() + 1
    rows = np.concatenate((grid, grid if difference else grid + count))
    signs = np.ones(rows.shape, dtype=dtype)
    if difference:
        signs[len(grid) :] = -1
    indptr = np.arange(0, rows.size + 1, rows.shape[1])
    width = count if difference else 2 * count
    return csr_matrix((signs.ravel(), rows.ravel(), indptr), shape=(len(rows), width))


def upside_down(shape):
    """The permutation of two planes' inputs that turns both upside down: int64 (2 * pixels,)."""
    plane = np.arange(shape[0] * shape[1]).reshape(shape)[::-1].ravel()
    return np.concatenate((plane, plane + plane.size))


def fine_rows(shape, difference, tiles):
    """The parameter rows of ``pixel_tie`` that belong to single pixels, not to tiles: int64 (n,)."""
    per_plane = _grids(shape, tiles).max() + 1
    planes = 1 if difference else 2
    return (np.arange(planes)[:, None] * per_plane + np.arange(shape[0] * shape[1])).ravel()


def _grids(shape, tiles):
    """The parameter row of each pixel in each grid, for one plane: int32 (pixels, terms)."""
    y, x = np.divmod(np.arange(shape[0] * shape[1]), shape[1])
    columns, start = [y * shape[1] + x], shape[0] * shape[1]
    for height, width in TILES if tiles else ():
        across = -(-shape[1] // width)
        columns.append(start + y // height * across + x // width)
        start += -(-shape[0] // height) * across
    return np.stack(columns, axis=1).astype(np.int32)
