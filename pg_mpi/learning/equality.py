"""Whether all ranks hold the same bits."""

from collections import Counter

import numpy as np

from pg_mpi.mpi.interface import Collectives

NAMED = 20  # most ranks that are listed


def differing_ranks(world: Collectives, digest: int) -> str:
    """List the ranks whose ``digest``, an integer below 2^62, is not the commonest one; empty if all are equal.

    Collective: every rank must call this.
    """
    high, low = world.max_(np.array([digest, -digest]))
    if high == -low:
        return ""
    digests = world.gather_all(digest)
    common = Counter(digests).most_common(1)[0][0]  # the first of equally common ones
    strays = [str(rank) for rank, each in enumerate(digests) if each != common]
    more = f" and {len(strays) - NAMED} more" if len(strays) > NAMED else ""
    return ", ".join(strays[:NAMED]) + more
