"""Action distributions, dense and custom policies, and running normalisation."""

import numpy as np
import pytest
from derivatives import numeric
from scipy import stats

from pg_mpi.config.errors import RunError
from pg_mpi.policy.custom_policy import CustomPolicy
from pg_mpi.policy.distributions import Categorical, Gaussian
from pg_mpi.policy.mlp import MLP
from pg_mpi.policy.network import draw
from pg_mpi.policy.running_norm import RunningNorm

CLIP, ENT_COEF = 0.2, 0.05


def surrogate(distribution, outputs, *given):
    """Return the loss that ``distribution.surrogate`` differentiates."""
    (loss, entropy, _, _), _ = distribution.surrogate(outputs, *given, CLIP, ENT_COEF)
    return loss - ENT_COEF * entropy


@pytest.mark.parametrize("distribution", [Categorical(4), Gaussian(3)], ids=["categorical", "gaussian"])
def test_surrogate_gradient_is_the_finite_difference(distribution):
    rng = np.random.default_rng(0)
    n = 30
    outputs = 0.5 * rng.normal(size=(n, distribution.outputs))
    actions, log_probs = distribution.sample(outputs, [rng] * n)
    given = actions, log_probs + 0.3 * rng.normal(size=n), rng.normal(size=n)
    (_, _, _, clipped), gradient = distribution.surrogate(outputs, *given, CLIP, ENT_COEF)
    assert 0 < clipped < n, "only one branch of the clip is tested"
    slope = numeric(lambda outputs: surrogate(distribution, outputs, *given), outputs)
    np.testing.assert_allclose(gradient, slope, rtol=1e-6, atol=2e-8)


def test_gaussian_log_probability_and_entropy_match_scipy():
    rng = np.random.default_rng(1)
    distribution, outputs = Gaussian(2), rng.normal(size=(50, 4))
    actions, log_probs = distribution.sample(outputs, [rng] * 50)
    expected = stats.norm(outputs[:, :2], np.exp(outputs[:, 2:])).logpdf(actions).sum(axis=1)
    np.testing.assert_allclose(log_probs, expected, rtol=1e-12)
    (_, entropy, kl, _), _ = distribution.surrogate(outputs, actions, log_probs, np.ones(50), CLIP, 0.0)
    assert entropy == pytest.approx(stats.norm(0, np.exp(outputs[:, 2:])).entropy().sum())
    assert abs(kl) < 1e-10, "a ratio differs from 1"


def test_gaussian_samples_have_the_mean_and_deviation():
    rng = np.random.default_rng(2)
    outputs = np.tile([1.0, -2.0, np.log(0.5), np.log(3.0)], (20_000, 1))
    actions, _ = Gaussian(2).sample(outputs, [rng] * 20_000)
    for column, mean, deviation in ((0, 1.0, 0.5), (1, -2.0, 3.0)):
        assert stats.kstest(actions[:, column], "norm", (mean, deviation)).pvalue > 1e-4


def test_batched_samples_equal_single_draws():
    rng = np.random.default_rng(3)
    logits = 2 * rng.normal(size=(200, 5))
    generators = [np.random.default_rng(seed) for seed in range(200)]
    actions, log_probs = Categorical(5).sample(logits, generators)
    for row, seed in enumerate(range(200)):
        action, log_prob = draw(logits[row].tolist(), np.random.default_rng(seed).random())
        assert (actions[row], pytest.approx(log_probs[row])) == (action, log_prob)


@pytest.mark.parametrize("free", [0, 2])
def test_mlp_gradient_is_the_finite_difference(free):
    rng = np.random.default_rng(4)
    net = MLP(5, 4, free, rng, hidden=6, dtype=np.float64)
    net.theta[...] += 0.3 * rng.normal(size=net.theta.size)
    x, d_outputs = rng.normal(size=(7, 5)), rng.normal(size=(7, 5))

    def projected(theta):
        net.theta[...] = theta
        return (net.forward(x) * d_outputs).sum()

    theta = net.theta.copy()
    slope = numeric(projected, theta)
    projected(theta)
    np.testing.assert_allclose(net.backward(d_outputs), slope, rtol=1e-6, atol=1e-7)


def test_mlp_initialisation_is_orthogonal():
    net = MLP(4, 3, 0, np.random.default_rng(5), hidden=16)
    first, second = net.theta[: 4 * 16].reshape(4, 16), net.theta[80 : 80 + 256].reshape(16, 16)
    np.testing.assert_allclose(first @ first.T, 2 * np.eye(4), atol=1e-5)
    np.testing.assert_allclose(second @ second.T, 2 * np.eye(16), atol=1e-5)


class VectorTrajectory:
    """A trajectory of vectors, with the attributes that ``CustomPolicy`` reads."""

    def __init__(self, seen):
        self.seen, self.length = list(seen), len(seen)


def custom_policy(function, distribution, inputs, norm=None):
    return CustomPolicy(function, distribution, inputs, False, norm, norm is not None)


def test_sampling_and_learning_compute_the_same_outputs():
    """Normalised observations give the same outputs for sampling and learning, also after other forward passes."""
    rng = np.random.default_rng(6)
    norm = RunningNorm(np.zeros(3))
    norm.merge(norm.sums(5 + 2 * rng.normal(size=(100, 3)), np.zeros(100)))
    policy = custom_policy(MLP(3, 4, 2, rng), Gaussian(2), 3, norm)
    observations = (5 + 2 * rng.normal(size=(8, 3))).astype(np.float32)
    sampled = policy.sample(observations, [np.random.default_rng(9)] * 8)
    x = policy.batch([VectorTrajectory(observations[:3]), VectorTrajectory([]), VectorTrajectory(observations[3:])])
    policy.forward(0 * policy.theta, x)  # with other parameters
    outputs, _ = policy.forward(policy.theta, x[np.arange(8)])
    np.testing.assert_allclose(outputs[:, -1], [value for value, _, _ in sampled], rtol=1e-6)
    again = policy.sample(observations, [np.random.default_rng(9)] * 8)
    np.testing.assert_array_equal([a for _, a, _ in again], [a for _, a, _ in sampled])
    assert abs(x.mean()) < 0.5 and 0.5 < x.std() < 1.5


class ShortGradient(MLP):
    """A policy whose gradient lacks a parameter."""

    def backward(self, d_outputs):
        return super().backward(d_outputs)[:-1]


class ListOutputs(MLP):
    """A policy whose outputs are nested lists."""

    def forward(self, observations):
        return super().forward(observations).tolist()


def test_outputs_may_be_nested_lists():
    policy, seen = custom_policy(ListOutputs(3, 2, 0, np.random.default_rng(8)), Categorical(2), 3), np.zeros(3)
    assert len(policy.sample([seen], [np.random.default_rng(0)])) == 1
    assert policy.forward(policy.theta, np.zeros((4, 3), np.float32))[0].shape == (4, 3)


def test_gradient_or_outputs_of_wrong_shape_are_refused():
    rng = np.random.default_rng(7)
    policy = custom_policy(ShortGradient(3, 2, 0, rng), Categorical(2), 3)
    policy.forward(policy.theta, np.zeros((4, 3), np.float32))
    with pytest.raises(RunError, match=r"backward gave \(\d+,\), and theta is \(\d+,\)"):
        policy.backward(policy.theta, None, None, np.zeros((4, 3), np.float32), np.zeros_like(policy.theta))
    policy = custom_policy(MLP(3, 4, 0, rng), Categorical(2), 3)
    with pytest.raises(RunError, match=r"forward gave \(4, 5\), not \(4, 3\)"):
        policy.forward(policy.theta, np.zeros((4, 3), np.float32))


@pytest.mark.parametrize("theta", [np.zeros(3), np.zeros((2, 2), np.float32), [0.0], np.zeros(0, np.float32)])
def test_invalid_theta_is_refused(theta):
    function = MLP(3, 2, 0, np.random.default_rng(8))
    function.theta = theta
    with pytest.raises(RunError, match="theta must be"):
        custom_policy(function, Categorical(2), 3)


# -- running normalisation ------------------------------------------------------------------------------
