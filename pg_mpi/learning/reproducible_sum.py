"""Sums that do not depend on the order of addition.

Floating-point addition rounds, so a sum over ranks depends on their number and on the MPI library. Multiples of 2^-k,
however, add exactly in float64 while the sum stays below 2^(53-k). Each term is therefore first rounded to such a
multiple.

With ``--reproducible`` the gradients of single envs (``sample_groups``) are rounded in ``update_buffers``, and summed
over ranks in ``optimizer_steps``.

Source: Demmel & Nguyen, "Fast Reproducible Floating-Point Summation" (2013), which uses several grids.
"""

from typing import Any, NoReturn

import numpy as np

from pg_mpi.config.array_types import Doubles
from pg_mpi.config.errors import RunError, agreed
from pg_mpi.mpi.interface import Collectives

#: ``FINE`` (gradients): multiples of 6e-11, exact up to 5e5. ``COARSE`` (all else): multiples of 1e-6, up to 9e9.
#: ``REST`` (what ``COARSE`` leaves): multiples of 6e-17, exact for a million terms.
FINE, COARSE, REST = 34, 20, 54


def too_large(sums: Any, limit: float) -> bool:
    """Whether finite sums of numbers on a grid are too large for it."""
    return bool(limit <= np.max(np.abs(sums), initial=0.0) < np.inf)


def refuse(bits: int) -> NoReturn:
    """Raise ``RunError`` for sums over all ranks that are too large for the grid of 2^-bits. Every rank must do so."""
    line = f"a sum exceeds {2.0 ** (52 - bits):.0g}: gradients, rewards or observations are too large for exact sums"
    raise agreed(RunError(f"{line}; scale them down, or leave --reproducible out"))


def check(sums: Any) -> None:
    """Raise ``RunError`` if sums over all ranks are ``too_large``."""
    if too_large(sums, 2.0 ** (52 - COARSE)):
        refuse(COARSE)


def split(values: Any) -> Doubles:
    """Split values into multiples of 2^-COARSE and the rest, in multiples of 2^-REST: (2, ...)."""
    coarse = on_grid(values)
    with np.errstate(invalid="ignore"):  # infinite values
        return np.stack([coarse, on_grid(values - coarse, REST)])


def summed(world: Collectives, terms: Any, exact: bool) -> Doubles:
    """Sum arrays of one shape over this rank's ``terms``, at least one, and over ranks.

    Collective: every rank must call this.

    Args:
        exact: whether the sum must not depend on the order. Raises ``RunError`` if it is too large for that.
    """
    sums: Any = sum(map(split if exact else np.asarray, terms))
    world.sum_(sums)
    if exact:
        check(sums)
        sums = sums.sum(axis=0)
    return np.asarray(sums)


def to_units(values: Any, bits: int, out: Any = None) -> Any:
    """Convert ``values`` to integer multiples of 2^-bits: float64, in ``out`` if given. Non-finite values are kept."""
    return np.rint(np.multiply(values, 2.0**bits, out=out, dtype=np.float64), out=out)


def on_grid(values: Any, bits: int = COARSE) -> Any:
    """Round ``values``, an array or a number, to multiples of 2^-bits: float64. Non-finite values are kept."""
    return to_units(values, bits) / 2.0**bits
