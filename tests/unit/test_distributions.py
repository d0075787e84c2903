"""Distributions of actions, and policies of one's own: derivatives against finite differences, draws against theory."""

import numpy as np
import pytest
from scipy import stats

from pg_mpi.config.errors import RunError
from pg_mpi.learning.advantages import discounted_returns
from pg_mpi.policy.custom_policy import CustomPolicy
from pg_mpi.policy.distributions import Categorical, Gaussian
from pg_mpi.policy.mlp import MLP
from pg_mpi.policy.network import draw
from pg_mpi.policy.running_norm import LIMIT, RunningNorm

CLIP, ENT_COEF = 0.2, 0.05


def surrogate(head, outputs, *given):
    """The loss that ``head.surrogate`` differentiates."""
    (loss, entropy, _, _), _ = head.surrogate(outputs, *given, CLIP, ENT_COEF)
    return loss - ENT_COEF * entropy


@pytest.mark.parametrize("head", [Categorical(4), Gaussian(3)], ids=["categorical", "gaussian"])
def test_surrogates_derivative_is_the_finite_difference(head):
    rng = np.random.default_rng(0)
    n = 30
    outputs = 0.5 * rng.normal(size=(n, head.outputs))
    actions, log_probs = head.sample(outputs, [rng] * n)
    given = actions, log_probs + 0.3 * rng.normal(size=n), rng.normal(size=n)
    (_, _, _, clipped), found = head.surrogate(outputs, *given, CLIP, ENT_COEF)
    assert 0 < clipped < n, "both branches of the clip are under test"
    for place in np.ndindex(outputs.shape):
        step = np.zeros_like(outputs)
        step[place] = 1e-6
        slope = (surrogate(head, outputs + step, *given) - surrogate(head, outputs - step, *given)) / 2e-6
        assert found[place] == pytest.approx(slope, abs=2e-8)


def test_gaussian_log_probability_is_scipys():
    rng = np.random.default_rng(1)
    head, outputs = Gaussian(2), rng.normal(size=(50, 4))
    actions, log_probs = head.sample(outputs, [rng] * 50)
    expected = stats.norm(outputs[:, :2], np.exp(outputs[:, 2:])).logpdf(actions).sum(axis=1)
    np.testing.assert_allclose(log_probs, expected, rtol=1e-12)
    (_, entropy, kl, _), _ = head.surrogate(outputs, actions, log_probs, np.ones(50), CLIP, 0.0)
    assert entropy == pytest.approx(stats.norm(0, np.exp(outputs[:, 2:])).entropy().sum())
    assert abs(kl) < 1e-10, "a ratio of one everywhere"


def test_gaussian_draws_have_mean_and_deviation():
    rng = np.random.default_rng(2)
    outputs = np.tile([1.0, -2.0, np.log(0.5), np.log(3.0)], (20_000, 1))
    actions, _ = Gaussian(2).sample(outputs, [rng] * 20_000)
    for column, mean, deviation in ((0, 1.0, 0.5), (1, -2.0, 3.0)):
        assert stats.kstest(actions[:, column], "norm", (mean, deviation)).pvalue > 1e-4


def test_many_draws_at_once_are_those_one_by_one():
    rng = np.random.default_rng(3)
    logits = 2 * rng.normal(size=(200, 5))
    generators = [np.random.default_rng(seed) for seed in range(200)]
    actions, log_probs = Categorical(5).sample(logits, generators)
    for row, seed in enumerate(range(200)):
        action, log_prob = draw(logits[row].tolist(), np.random.default_rng(seed).random())
        assert (actions[row], pytest.approx(log_probs[row])) == (action, log_prob)


@pytest.mark.parametrize("free", [0, 2])
def test_dense_gradient_is_the_finite_difference(free):
    rng = np.random.default_rng(4)
    net = MLP(5, 4, free, rng, hidden=6, dtype=np.float64)
    net.theta[...] += 0.3 * rng.normal(size=net.theta.size)
    x, d_outputs = rng.normal(size=(7, 5)), rng.normal(size=(7, 5))
    net.forward(x)
    found = net.backward(d_outputs)
    assert found.shape == net.theta.shape
    for place in range(net.theta.size):
        kept = net.theta[place]
        values = []
        for step in (1e-6, -1e-6):
            net.theta[place] = kept + step
            values.append((net.forward(x) * d_outputs).sum())
        net.theta[place] = kept
        assert found[place] == pytest.approx((values[0] - values[1]) / 2e-6, abs=1e-7)


def test_dense_starts_orthogonal():
    net = MLP(4, 3, 0, np.random.default_rng(5), hidden=16)
    first, second = net.theta[: 4 * 16].reshape(4, 16), net.theta[80 : 80 + 256].reshape(16, 16)
    np.testing.assert_allclose(first @ first.T, 2 * np.eye(4), atol=1e-5)
    np.testing.assert_allclose(second @ second.T, 2 * np.eye(16), atol=1e-5)


class Lived:
    """A trajectory of vectors, as far as ``CustomPolicy`` looks at one."""

    def __init__(self, seen):
        self.seen, self.length = list(seen), len(seen)


def own(function, head, inputs, norm=None):
    return CustomPolicy(function, head, inputs, False, norm, norm is not None)


def test_what_was_played_is_what_is_learned_from():
    """Acting and learning see the same outputs, on scaled observations, whatever was computed in between."""
    rng = np.random.default_rng(6)
    norm = RunningNorm(np.zeros(3))
    norm.merge(norm.sums(5 + 2 * rng.normal(size=(100, 3)), np.zeros(100)))
    policy = own(MLP(3, 4, 2, rng), Gaussian(2), 3, norm)
    seen = (5 + 2 * rng.normal(size=(8, 3))).astype(np.float32)
    played = policy.sample(seen, [np.random.default_rng(9)] * 8)
    x = policy.batch([Lived(seen[:3]), Lived([]), Lived(seen[3:])])
    policy.forward(0 * policy.theta, x)  # another's parameters
    outputs, _ = policy.forward(policy.theta, policy.pick(x, np.arange(8)))
    np.testing.assert_allclose(outputs[:, -1], [value for value, _, _ in played], rtol=1e-6)
    again = policy.sample(seen, [np.random.default_rng(9)] * 8)
    np.testing.assert_array_equal([a for _, a, _ in again], [a for _, a, _ in played])
    assert abs(x.mean()) < 0.5 and 0.5 < x.std() < 1.5


class Spoilt(MLP):
    """A policy whose gradient lacks a parameter."""

    def backward(self, d_outputs):
        return super().backward(d_outputs)[:-1]


def test_a_gradient_of_another_size_is_refused():
    rng = np.random.default_rng(7)
    policy = own(Spoilt(3, 2, 0, rng), Categorical(2), 3)
    policy.forward(policy.theta, np.zeros((4, 3), np.float32))
    with pytest.raises(RunError, match=r"backward gave \(\d+,\), and theta is \(\d+,\)"):
        policy.backward(policy.theta, None, None, np.zeros((4, 3), np.float32), np.zeros_like(policy.theta))
    policy = own(MLP(3, 4, 0, rng), Categorical(2), 3)
    with pytest.raises(RunError, match=r"forward gave \(4, 5\), not \(4, 3\)"):
        policy.forward(policy.theta, np.zeros((4, 3), np.float32))


@pytest.mark.parametrize("theta", [np.zeros(3), np.zeros((2, 2), np.float32), [0.0], np.zeros(0, np.float32)])
def test_parameters_that_cannot_be_exchanged_are_refused(theta):
    function = MLP(3, 2, 0, np.random.default_rng(8))
    function.theta = theta
    with pytest.raises(TypeError, match="theta must be"):
        own(function, Categorical(2), 3)


# -- scaling --------------------------------------------------------------------------------------------


def test_scaler_has_the_mean_and_deviation_of_all_it_saw():
    """Merged over rounds and envs of any length, with a mean that is large beside the deviation."""
    rng = np.random.default_rng(10)
    seen = 1e4 + rng.normal(size=(600, 3)) * [1, 10, 0.01]
    norm = RunningNorm(seen[0])
    for envs in np.split(seen, [100, 101, 101, 350]):
        parts = [norm.sums(env, np.zeros(len(env))) for env in np.array_split(envs, 3)]
        norm.merge(sum(parts))
    scaled = norm.scaled(seen)
    np.testing.assert_allclose(scaled, np.clip((seen - seen.mean(0)) / seen.std(0), -LIMIT, LIMIT), atol=1e-6)
    assert norm.reward_factor == 1.0, "returns that are all the same are left as they are"


def test_scaler_brings_returns_to_deviation_one():
    rng = np.random.default_rng(11)
    norm, gamma = RunningNorm(), 0.9
    rewards, ends = 100 * rng.normal(size=500), rng.random(500) < 0.05
    assert norm.reward_factor == 1.0
    norm.merge(norm.sums(np.empty((500, 0)), discounted_returns(rewards, ends, gamma)))
    returns, after = [], 0.0
    for reward, end in zip(rewards[::-1], ends[::-1]):
        after = reward + gamma * after * (not end)
        returns.append(after)
    assert norm.reward_factor == pytest.approx(1 / np.std(returns))
