"""Sums that come out the same in any order: of numbers on a grid that a float64 holds exactly.

Floating-point addition rounds, so its result depends on who adds what to what, and a sum over ranks on their number and
their MPI. Multiples of 2^-k, however, are added in float64 without rounding as long as the sum stays below 2^(53-k):
it is whole numbers that are added. So what is summed is first rounded to such multiples, each term by itself.

Source of the idea: Demmel & Nguyen, "Fast Reproducible Floating-Point Summation" (2013), there with several grids.
"""

from typing import Any

import numpy as np

#: Multiples of 6e-11, and sums up to 5e5 either way: gradients. Multiples of 1e-6 and sums up to 9e9: all else.
FINE, COARSE = 34, 20


def check(sums: Any, bits: int = COARSE, in_units: bool = False) -> None:
    """Raise ``OverflowError`` for sums of numbers on a grid that are, or may on the way have been, too large for it.

    ``in_units``: the sums are whole multiples of 2^-bits.
    """
    if np.max(np.abs(sums), initial=0.0) >= 2.0 ** (52 if in_units else 52 - bits):
        limit = 2.0 ** (52 - bits)
        raise OverflowError(f"a sum beyond {limit:.0g}: rewards or observations this large have no exact sums")


def to_units(values: Any, bits: int, out: Any) -> None:
    """``values`` as whole multiples of 2^-bits: into ``out``, float64. What is not finite stays so."""
    np.multiply(values, 2.0**bits, out=out, dtype=np.float64)
    np.rint(out, out=out)


def on_grid(values: Any, bits: int = COARSE) -> Any:
    """``values``, an array or a number, rounded to multiples of 2^-bits: float64. What is not finite stays so."""
    scale = 2.0**bits
    scaled = np.multiply(values, scale, dtype=np.float64)
    return np.rint(scaled) / scale
