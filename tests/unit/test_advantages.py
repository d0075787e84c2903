"""Returns and advantages match arrays computed by hand, and simpler cases."""

import numpy as np

from pg_mpi.learning.advantages import discounted_returns, generalised_advantages, standardise


def test_discounted_returns_restart_after_each_end():
    returns = discounted_returns([0, 0, 1, 0, -1, 0], [0, 0, 1, 0, 1, 0], 0.5)
    np.testing.assert_array_equal(returns, [0.25, 0.5, 1, -0.5, -1, 0])


def test_discounted_returns_without_ends():
    np.testing.assert_array_equal(discounted_returns([1, 0, 4], [0, 0, 0], 0.5), [2, 2, 4])


def test_standardise():
    np.testing.assert_allclose(standardise(np.array([1.0, 3.0, 5.0])), [-1.2247448714, 0, 1.2247448714])
    np.testing.assert_array_equal(standardise(np.full(4, 2.5)), 0)


def test_gae_by_hand():
    # deltas: 0 + .5*2 - 1 = 0;  1 - 2 = -1 (end);  0 + .5*6 - 4 = -1 (cut off, last value 6)
    advantages = generalised_advantages([0, 1, 0], [1, 2, 4], [0, 1, 0], 6, gamma=0.5, gae_lambda=0.5)
    np.testing.assert_array_equal(advantages, [-0.25, -1, -1])


def test_gae_with_lambda_0_is_one_step_and_with_lambda_1_is_the_return():
    rng = np.random.default_rng(0)
    rewards, values, ends = rng.normal(size=50), rng.normal(size=50), rng.random(50) < 0.1
    ends[-1] = True
    one_step = generalised_advantages(rewards, values, ends, 0.0, 0.9, 0.0)
    following = np.append(values[1:], 0.0) * ~ends
    np.testing.assert_allclose(one_step, rewards + 0.9 * following - values)
    monte_carlo = generalised_advantages(rewards, values, ends, 0.0, 0.9, 1.0)
    np.testing.assert_allclose(monte_carlo + values, discounted_returns(rewards, ends, 0.9))


def test_empty_inputs_give_empty_arrays():
    assert generalised_advantages([], [], [], 1.0, 0.9, 0.9).shape == (0,)
    assert discounted_returns([], [], 0.9).shape == (0,)
