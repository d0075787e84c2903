"""Weights that inputs share."""

from typing import Any

import numpy as np
from scipy.sparse import csr_matrix


def signed(size: int, dtype: Any = np.float32) -> csr_matrix:
    """The second half of the inputs has the negative weights of the first: csr (size, size / 2)."""
    half = size // 2
    rows = np.tile(np.arange(half), 2)
    values = np.repeat(np.array([1, -1], dtype=dtype), half)
    return csr_matrix((values, rows, np.arange(size + 1)), shape=(size, half))
