"""A check that all ranks hold the same weights."""

from collections import Counter

import numpy as np

from pg_mpi.config.errors import agreed
from pg_mpi.mpi.interface import Collectives

NAMED = 20  # most ranks that are listed


def require_equal(world: Collectives, digest: int, when: str) -> None:
    """Raise ``RuntimeError`` naming the ranks whose ``digest`` of the weights is not the commonest one.

    Collective: every rank must call this.

    Args:
        digest: an integer below 2^62.
        when: begins the message.
    """
    high, low = world.max_(np.array([digest, -digest]))
    if high == -low:
        return
    digests = world.gather_all(digest)
    common = Counter(digests).most_common(1)[0][0]  # the first of equally common ones
    strays = [str(rank) for rank, each in enumerate(digests) if each != common]
    more = f" and {len(strays) - NAMED} more" if len(strays) > NAMED else ""
    error = RuntimeError(
        f"{when} the weights of rank {', '.join(strays[:NAMED])}{more} differ from the others': "
        "check the hardware and that all ranks use the same libraries; no checkpoint was saved since they differ"
    )
    raise agreed(error)
