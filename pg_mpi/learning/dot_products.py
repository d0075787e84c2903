"""Dot products with the same bits on every rank, on any processor, whether ranks have all of the vectors or blocks."""

from typing import Any

import numpy as np

from pg_mpi.config.array_types import Doubles, Floats

BLOCK = 4096


def dot(a: Floats, b: Floats) -> Any:
    """The sum of products of two vectors, of their dtype.

    All ranks must get the same bits, also on different processors. The order of a BLAS sum depends on the processor,
    so this uses numpy's own sum, although it takes more than twice as long.
    """
    return np.einsum("i,i->", a, b)


def dot_of_blocks(a: Floats, b: Floats) -> float:
    """The sum of products, added as ranks do that each have some of the blocks."""
    return float(block_sums(a, b).sum())


def block_sums(a: Floats, b: Floats) -> Doubles:
    """The sums of products of each block of ``BLOCK`` elements, the last perhaps shorter: float64 (blocks,)."""
    sums = np.empty(blocks_of(len(a)))
    whole = len(a) // BLOCK
    cut = whole * BLOCK
    sums[:whole] = np.einsum("ij,ij->i", a[:cut].reshape(whole, BLOCK), b[:cut].reshape(whole, BLOCK))
    sums[whole:] = np.einsum("i,i->", a[cut:], b[cut:])
    return sums


def blocks_of(size: int) -> int:
    """The number of blocks of ``size`` elements."""
    return -(-size // BLOCK)
