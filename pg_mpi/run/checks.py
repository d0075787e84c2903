"""Proofs that a run is still sound: all ranks hold the same weights, and the gradient is finite."""

import zlib

from pg_mpi.config.errors import RunError

SKIPPED_IN_ROW = 10  # updates


def check_weights(world, theta, update):
    """Prove by their CRC-32 that all ranks hold the same weights, bit for bit. Collective: every rank must call this.

    Raises ``RuntimeError`` naming those that differ.
    """
    digest = zlib.crc32(theta)  # no one forges weights here, and it takes a sixth of what a secure one does
    digests = world.gather_all(digest)
    common = max(digests, key=lambda d: (digests.count(d), d == digests[0]))
    strays = [rank for rank, digest in enumerate(digests) if digest != common]
    if strays:
        error = RuntimeError(
            f"after update {update} the weights of rank {', '.join(map(str, strays))} differ from the others': a "
            "machine error, or ranks that run different libraries; nothing was saved since they differ"
        )
        error.agreed = True
        raise error


def check_gradient(skipped_in_row, update):
    """Raise ``RunError`` after too many updates in a row without a finite gradient: it will not come back."""
    if skipped_in_row == SKIPPED_IN_ROW:
        error = RunError(
            f"the gradient was not finite in {SKIPPED_IN_ROW} updates in a row, the last of them update {update}: the "
            "same command goes on from the newest checkpoint; if it happens again, lower --learning-rate in a new "
            "--run-dir"
        )
        error.agreed = True
        raise error
