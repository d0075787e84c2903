"""Derivatives by finite differences."""

import numpy as np


def numeric(function, at, step=1e-6):
    """Central differences of a scalar function at ``at``, element by element."""
    slope = np.empty(at.shape)
    for index in np.ndindex(at.shape):
        up, down = at.copy(), at.copy()
        up[index] += step
        down[index] -= step
        slope[index] = (function(up) - function(down)) / (2 * step)
    return slope
