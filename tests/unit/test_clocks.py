"""The offset of a rank's clock from that of rank 0."""

from types import SimpleNamespace

import numpy as np

from pg_mpi.mpi import clocks


def test_offset_has_the_sign_of_the_own_clock():
    world = SimpleNamespace(barrier=lambda: None, broadcast_=lambda array: np.array([100.0]))
    assert clocks.ahead(world, lambda: 103.0, 3) == 3.0
