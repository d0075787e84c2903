"""Checks of a run: equal weights on all ranks, finite gradients."""

import zlib
from typing import Any, cast

from pg_mpi.config.array_types import Floats
from pg_mpi.config.errors import RunError, agreed
from pg_mpi.learning.equality import require_equal
from pg_mpi.mpi.interface import Collectives

SKIPPED_IN_ROW = 10  # updates


def check_weights(world: Collectives, theta: Floats, update: int) -> None:
    """Check by CRC-32 that all ranks hold bitwise-equal weights. Collective: every rank must call this.

    Raises ``RuntimeError`` naming the ranks that differ.
    """
    digest = zlib.crc32(cast(Any, theta))  # a secure hash takes six times as long
    require_equal(world, digest, f"after update {update}")


def check_gradient(skipped_in_row: int, update: int) -> None:
    """Raise ``RunError`` after ``SKIPPED_IN_ROW`` updates in a row in which a gradient was not finite."""
    if skipped_in_row == SKIPPED_IN_ROW:
        line = (
            f"the gradient was not finite in {SKIPPED_IN_ROW} updates in a row, the last of them update {update}: run "
            "the same command to resume from the newest checkpoint; if it happens again, lower --learning-rate in a "
            "new --run-dir"
        )
        raise agreed(RunError(line))
