"""Orthogonal initialisation of weights."""

import numpy as np

from pg_mpi.config.array_types import Floats


def orthogonal(shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    """Return a random float64 matrix with orthonormal rows or columns (Saxe et al., 2013)."""
    a, b = shape
    q, r = np.linalg.qr(rng.standard_normal((max(a, b), min(a, b))))
    q *= np.sign(np.diag(r))
    result: Floats = q if a >= b else q.T
    return result
