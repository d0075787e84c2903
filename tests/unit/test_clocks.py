"""The offset of a rank's clock from that of rank 0."""

from types import SimpleNamespace

import numpy as np

from pg_mpi.mpi import clocks


def test_offset_has_the_sign_of_the_own_clock():
    theirs = iter([[100.0], [70.0], [101.0]])  # this rank left the second barrier late
    world = SimpleNamespace(barrier=lambda: None, broadcast_=lambda array: np.array(next(theirs)))
    assert clocks.ahead(world, lambda: 103.0, 3) == 3.0
