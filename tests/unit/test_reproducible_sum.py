"""Reproducible sums do not depend on the order of their terms."""

import math

import numpy as np
import pytest

from pg_mpi.config.errors import RunError
from pg_mpi.config.settings import TrainConfig
from pg_mpi.learning.batch_source import BatchSource
from pg_mpi.learning.reproducible_sum import COARSE, FINE, on_grid, summed
from pg_mpi.learning.update_buffers import UpdateBuffers
from pg_mpi.mpi.world import World


def sums(terms, rng):
    """Return the set of sums of the same float64 terms in random orders and groupings."""
    results = set()
    for _ in range(50):
        shuffled = rng.permutation(terms)
        cut = rng.integers(1, len(terms) - 1)
        results.add(float(sum(shuffled[:cut]) + sum(shuffled[cut:])))
    return results


@pytest.mark.parametrize("bits, size", [(FINE, 100.0), (COARSE, 1e6)])
def test_sum_on_grid_does_not_depend_on_the_order(bits, size):
    rng = np.random.default_rng(0)
    terms = rng.normal(size=200) * size
    assert len(sums(terms, rng)) > 1, "plain sums depend on the order"
    (whole,) = sums(on_grid(terms, bits), rng)
    assert whole == pytest.approx(math.fsum(terms), abs=200 * 2.0**-bits)


def test_exact_sums_of_small_numbers_do_not_vanish():
    """Squares of small observations and advantages, far below the coarse grid."""
    rng = np.random.default_rng(4)
    terms = 1e-10 * rng.random((200, 3))
    found = {summed(World(), rng.permutation(terms), exact=True).tobytes() for _ in range(50)}
    assert len(found) == 1
    np.testing.assert_allclose(np.frombuffer(found.pop()), terms.sum(axis=0), rtol=1e-6)


def test_on_grid_rounds_to_multiples_of_the_grid():
    assert on_grid(0.3, 2) == 0.25 and on_grid(-1.4, 0) == -1.0
    np.testing.assert_array_equal(on_grid(np.float32([0.1, 7]), 3), [0.125, 7])
    assert on_grid(np.float32([1e-3])).dtype == np.float64
    assert not np.isfinite(on_grid([np.nan, np.inf])).any()


def test_sums_beyond_the_grid_are_refused_and_infinite_ones_are_not():
    """A step along an infinite gradient is skipped, with and without exact sums."""
    with pytest.raises(RunError, match="a sum exceeds 4e.09: gradients, rewards or observations are too large"):
        summed(World(), [3e9, 3e9], exact=True)
    assert not np.isfinite(summed(World(), [1.0, np.inf], exact=True))
    buffers = UpdateBuffers(np.zeros(2, np.float32), None, 0.1, 0.0, 0, exact=True)
    assert buffers.too_large(np.array([0.0, 2.0**52]))
    assert not buffers.too_large(np.array([np.inf, np.nan])) and not buffers.too_large(np.array([2.0**52, np.inf]))


def test_update_buffers_mean_does_not_depend_on_the_order():
    rng = np.random.default_rng(1)
    gradients = rng.normal(size=(5, 7)).astype(np.float32)
    results = set()
    for order in ([0, 1, 2, 3, 4], [4, 2, 0, 3, 1]):
        buffers = UpdateBuffers(np.zeros(7, np.float32), None, 0.1, 0.0, 0, exact=True)
        for _ in range(2):  # the second minibatch starts from zero
            for k in order:
                buffers.out[:] = gradients[k]
                buffers.take_in()
            buffers.buffer[-1], buffers.empty = 5, True
        mean = buffers.mean(buffers.buffer[:-1], 5.0)
        assert mean.dtype == np.float32
        np.testing.assert_allclose(mean, gradients.mean(axis=0), rtol=1e-6)
        results.add(mean.tobytes())
    assert len(results) == 1


def test_plain_and_exact_sums():
    plain, exact = (BatchSource(None, TrainConfig(reproducible=exact), None, None) for exact in (False, True))
    for each in (plain, exact):
        each.NAMES = ("a",)
        each.prepare([])
        each._add(0.1, 2)
        each._add(0.2, 3)
    assert plain._sums.tolist() == [0.1 + 0.2, 5]
    assert exact._sums.tolist() == [(round(0.1 * 2**20) + round(0.2 * 2**20)) / 2**20, 5]
