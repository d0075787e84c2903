"""All derivatives match finite differences, in float64."""

import numpy as np
import pytest
from derivatives import numeric

from pg_mpi.policy import losses
from pg_mpi.policy.distributions import Categorical
from pg_mpi.policy.sparse_mlp import SparseMLP

RNG = np.random.default_rng(7)


@pytest.fixture
def samples():
    n = 9
    return {
        "logits": RNG.normal(size=(n, 3)),
        "actions": RNG.integers(3, size=n),
        "advantages": RNG.normal(size=n),
    }


def test_log_softmax_is_normalised_and_does_not_overflow():
    log_pi = losses.log_softmax(np.array([[1000.0, 0.0, -1000.0], [1.0, 1.0, 1.0]]))
    np.testing.assert_allclose(np.exp(log_pi).sum(axis=1), 1)
    np.testing.assert_allclose(log_pi[1], -np.log(3))


def test_reinforce(samples):
    def loss(logits):
        return losses.reinforce(logits, samples["actions"], samples["advantages"])[0]

    _, derivative, entropy = losses.reinforce(samples["logits"], samples["actions"], samples["advantages"])
    np.testing.assert_allclose(derivative, numeric(loss, samples["logits"]), atol=1e-8)
    np.testing.assert_allclose(entropy, losses.entropy(losses.log_softmax(samples["logits"]))[0])


def test_clipped_surrogate_by_hand():
    old = np.log([0.5, 0.4, 0.4, 0.625])  # ratios 1, 1.25, 1.25, 0.8
    (loss, _, _, clipped), derivative = Categorical(2).surrogate(
        np.zeros((4, 2)), np.zeros(4, int), old, np.array([1.0, 1.0, -1.0, -1.0]), clip=0.1, ent_coef=0.0
    )
    np.testing.assert_allclose(loss, -(1 + 1.1 - 1.25 - 0.9))
    np.testing.assert_allclose(derivative[:, 0], [-0.5, 0, 0.625, 0])
    assert clipped == 3


def test_entropy(samples):
    def entropy(logits):
        return losses.entropy(losses.log_softmax(logits))

    np.testing.assert_allclose(
        entropy(samples["logits"])[1], numeric(lambda x: entropy(x)[0], samples["logits"]), atol=1e-8
    )
    np.testing.assert_allclose(entropy(np.zeros((2, 4)))[0], 2 * np.log(4))


def test_value_loss():
    values, targets = RNG.normal(size=6), RNG.normal(size=6)
    derivative = losses.value_loss(values, targets)[1]
    np.testing.assert_allclose(derivative, numeric(lambda v: losses.value_loss(v, targets)[0], values), atol=1e-8)


INPUTS = 2000
KINDS = [
    {},
    {"signed": True},
    {"signed": True, "plain": True, "sigmoid": True},
    {"plain": True},
]


def random_policy(kind, n=12, active=20):
    """Return a policy with random parameters and a batch of ``n`` random observations."""
    policy = SparseMLP(INPUTS, 5, 3, dtype=np.float64, **kind)
    policy.theta[...] = RNG.normal(size=policy.theta.size) * 0.3
    observed = np.concatenate([RNG.choice(policy.rows, active, replace=False) for _ in range(n)])
    if kind.get("signed"):
        observed += policy.rows * RNG.integers(0, 2, len(observed))
    return policy, policy.gathered(observed.astype(np.int32), np.full(n, active))


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_policy_gradient_is_the_finite_difference(kind):
    """d loss / d parameters through both layers and the direct connections."""
    policy, x = random_policy(kind)
    weights = RNG.normal(size=(x.shape[0], 4))

    def loss(theta):
        return (policy.forward(theta, x)[0] * weights).sum()

    start = policy.theta
    gradient_of_loss = np.full_like(start, np.nan)
    policy.backward(start, x, policy.forward(start, x)[1], weights, gradient_of_loss)
    checked = RNG.choice(start.size, 200, replace=False)
    checked = np.unique(np.append(checked, np.arange(start.size - policy.tail, start.size)))
    for index in checked:
        up, down = start.copy(), start.copy()
        up[index] += 1e-6
        down[index] -= 1e-6
        assert gradient_of_loss[index] == pytest.approx((loss(up) - loss(down)) / 2e-6, abs=1e-6), index
    assert np.count_nonzero(gradient_of_loss[checked]) > 20


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_touched_rows_give_the_whole_gradient(kind):
    """Outputs and gradient on the touched rows equal those on all rows. No other row has a gradient."""
    policy, x = random_policy(kind, n=3)
    rows = np.flatnonzero(policy.used_rows(x))
    d_outputs = RNG.normal(size=(3, 4))

    def gradient(theta, x):
        outputs, units = policy.forward(theta, x)
        out = np.full_like(theta, np.nan)
        policy.backward(theta, x, units, d_outputs, out)
        return outputs, out

    part = policy.take(policy.theta, rows)
    whole_outputs, whole = gradient(policy.theta, x)
    part_outputs, part_gradient = gradient(part, policy.restrict(x, rows))
    np.testing.assert_allclose(part_outputs, whole_outputs, rtol=1e-12)
    scattered = np.zeros_like(whole)
    policy.put(scattered, rows, part_gradient)
    np.testing.assert_allclose(scattered, whole, rtol=1e-12, atol=1e-14)
    assert part.size < policy.theta.size


def test_self_imitation(samples):
    actions, values = samples["actions"], RNG.normal(size=len(samples["actions"]))
    returns = values + RNG.normal(size=len(values))
    gain = np.where(returns > values, returns - values, 0.0)
    assert 0 < np.count_nonzero(gain) < len(gain)

    def parts(logits, values):
        log_pi = losses.log_softmax(logits)
        rest = np.where(returns > values, returns - values, 0.0)
        return -(log_pi[np.arange(len(actions)), actions] * gain).sum(), (rest**2).sum() / 2

    loss, d_logits, d_values = losses.self_imitation(samples["logits"], actions, values, returns)
    assert loss == pytest.approx(parts(samples["logits"], values)[0])
    np.testing.assert_allclose(d_logits, numeric(lambda x: parts(x, values)[0], samples["logits"]), atol=1e-8)
    np.testing.assert_allclose(d_values, numeric(lambda v: parts(samples["logits"], v)[1], values), atol=1e-8)
