"""Optimizers follow their published formulas, on all rows and on touched rows."""

import numpy as np
import pytest

from pg_mpi.learning.optimizer import Adam, RMSProp, forget

RNG = np.random.default_rng(5)


def test_adam_follows_algorithm_1():
    n, rate = 7, 0.01
    theta = RNG.normal(size=n)
    expected, m, v = theta.copy(), np.zeros(n), np.zeros(n)
    adam = Adam(n, dtype=np.float64)
    for t in range(1, 30):
        g = RNG.normal(size=n)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        m_hat, v_hat = m / (1 - 0.9**t), v / (1 - 0.999**t)
        expected -= rate * m_hat / (np.sqrt(v_hat) + 1e-5)
        adam.step(theta, g.copy(), adam.state, rate)
        np.testing.assert_allclose(theta, expected, rtol=1e-12)


def test_rmsprop_follows_its_formula():
    n, rate = 5, 1e-3
    theta = RNG.normal(size=n)
    expected, cache = theta.copy(), np.zeros(n)
    rmsprop = RMSProp(n, dtype=np.float64)
    for _ in range(20):
        g = RNG.normal(size=n)
        cache = 0.99 * cache + 0.01 * g**2
        expected -= rate * g / (np.sqrt(cache) + 1e-5)
        rmsprop.step(theta, g.copy(), rmsprop.state, rate)
        np.testing.assert_allclose(theta, expected, rtol=1e-12)


@pytest.mark.parametrize("touched_each_time", [True, False])
def test_rmsprop_on_touched_rows_equals_the_dense_step(touched_each_time):
    """A zero gradient changes no weight and decays the cache, as ``rest`` does."""
    n = 12
    dense, rows_only = RMSProp(n, dtype=np.float64), RMSProp(n, dtype=np.float64)
    theta = RNG.normal(size=n)
    other = theta.copy()
    for _ in range(10):
        rows = np.arange(n) if touched_each_time else RNG.choice(n, 4, replace=False)
        g = np.zeros(n)
        g[rows] = RNG.normal(size=len(rows))
        dense.step(theta, g.copy(), dense.state, 0.01)
        part, state = other[rows].copy(), rows_only.state[:, rows].copy()
        rows_only.step(part, g[rows].copy(), state, 0.01)
        rows_only.rest(1)
        other[rows], rows_only.state[:, rows] = part, state
        np.testing.assert_allclose(other, theta, rtol=1e-12)
        np.testing.assert_allclose(rows_only.state, dense.state, rtol=1e-12)


def test_adam_does_not_change_untouched_rows():
    adam, theta = Adam(4), np.zeros(4, np.float32)
    adam.step(theta, np.ones(4, np.float32), adam.state, 0.1)
    before = adam.state.copy()
    adam.rest(10)
    np.testing.assert_array_equal(adam.state, before)


def test_forget_removes_subnormal_moments():
    """Subnormal numbers slow down later steps. Removing them changes no weight."""
    plain, cleaned = Adam(2), Adam(2)
    theta, other = np.zeros(2, np.float32), np.zeros(2, np.float32)
    subnormal = 0
    for step in range(1200):
        g = np.array([0.5, 0.5 if step == 0 else 0], np.float32)
        plain.step(theta, g.copy(), plain.state, 1e-3)
        subnormal += bool(0 < plain.state[0, 1] < np.finfo(np.float32).tiny)
        if step % 48 == 0:
            forget(cleaned.state)
        cleaned.step(other, g.copy(), cleaned.state, 1e-3)
        assert not 0 < cleaned.state[0, 1] < np.finfo(np.float32).tiny
    assert subnormal > 100 and cleaned.state[0, 1] == 0
    np.testing.assert_array_equal(other, theta)


def test_forget_zeroes_only_tiny_moments():
    state = np.array([[1e-29, -1e-31, -1e-3, 0, 1e-44]], np.float32)
    forget(state)
    np.testing.assert_array_equal(state, np.array([[1e-29, 0, -1e-3, 0, 0]], np.float32))
