"""What the policy computes: against dense arithmetic, and as a distribution."""

import numpy as np
import pytest

from pg_mpi.env import action_set as game_actions
from pg_mpi.env.action_set import CODES
from pg_mpi.policy.network import draw
from pg_mpi.policy.sparse_mlp import SparseMLP

INPUTS = 12_800


def test_plain_policy_equals_dense_arithmetic():
    rng = np.random.default_rng(0)
    policy = SparseMLP(INPUTS, 16, 3, dtype=np.float64)
    policy.theta[...] = rng.normal(size=policy.theta.size)
    first, heads, bias, head_bias = policy.views(policy.theta)
    active = np.sort(rng.choice(INPUTS, 65, replace=False))
    dense = np.zeros(INPUTS)
    dense[active] = 1
    hidden, direct = first[:, :16], first[:, 16:]
    assert direct.shape == (INPUTS, 4)
    expected = np.maximum(dense @ hidden + bias, 0) @ heads + dense @ direct + head_bias
    (outputs,) = policy.expand().forward([active])
    np.testing.assert_allclose(outputs, expected, rtol=1e-12)


def test_signed_inputs_are_plus_minus_one():
    rng = np.random.default_rng(1)
    policy = SparseMLP(INPUTS, 8, 2, parts=np.array([[1], [0]]), signed=True, plain=True, dtype=np.float64)
    policy.theta[...] = rng.normal(size=policy.theta.size)
    first, heads, _, _ = policy.views(policy.theta)
    assert first.shape == (6400, 8) and policy.theta.size == 6400 * 8 + 8
    frame = np.zeros(6400)
    frame[[5, 70]], frame[[9, 6399]] = 1, -1
    logit = np.maximum(frame @ first, 0) @ heads[:, 0]
    active = np.array([5, 70, 6400 + 9, 6400 + 6399])
    (outputs,) = policy.expand().forward([active])
    np.testing.assert_allclose(outputs, [logit, 0, 0], rtol=1e-12)
    learned, _ = policy.forward(policy.theta, policy.gathered(active, np.array([4])))
    np.testing.assert_allclose(learned[0], [logit, 0, 0], rtol=1e-12)


def test_a_logit_is_the_sum_of_its_parts():
    codes = [CODES[name] for name in ("NOOP", "FIRE", "UP", "LEFTFIRE", "UPLEFT")]
    made_of = game_actions.parts(codes)
    assert made_of == [[0, 0, 0], [0, 0, 1], [1, 0, 0], [0, 1, 1], [1, 1, 0]]
    rng = np.random.default_rng(5)
    policy = SparseMLP(100, 8, 5, parts=np.array(made_of), dtype=np.float64)
    policy.theta[...] = rng.normal(size=policy.theta.size)
    first, heads, bias, head_bias = policy.views(policy.theta)
    x = first[7] + first[50]
    up, left, fire, value = np.maximum(x[:8] + bias, 0) @ heads + x[8:] + head_bias
    (outputs,) = policy.expand().forward([np.array([7, 50])])
    np.testing.assert_allclose(outputs, [0, fire, up, left + fire, up + left, value], rtol=1e-12)


@pytest.mark.parametrize("signed", [False, True])
def test_a_refreshed_network_is_a_new_one(signed):
    rng = np.random.default_rng(4)
    policy = SparseMLP(200, 8, 3, signed=signed)
    policy.theta[...] = rng.normal(size=policy.theta.size)
    network, rows = policy.expand(), np.array([3, 40, 99])
    changed = policy.take(policy.theta, rows)
    policy.put(policy.theta, rows, changed + 1)
    policy.refresh(network, rows)
    fresh = policy.expand()
    for name in ("table", "bias", "last", "last_bias"):
        np.testing.assert_array_equal(getattr(network, name), getattr(fresh, name))


@pytest.mark.parametrize("signed", [False, True])
def test_playing_and_learning_compute_the_same(signed):
    rng = np.random.default_rng(3)
    policy = SparseMLP(INPUTS, 32, 3, signed=signed)
    policy.theta[...] = rng.normal(size=policy.theta.size) * 0.05
    seen = [np.sort(rng.choice(INPUTS, n, replace=False)) for n in (0, 1, 65, 300)]
    x = policy.gathered(np.concatenate(seen).astype(np.int32), np.array([len(each) for each in seen]))
    played, (learned, _) = policy.expand().forward(seen), policy.forward(policy.theta, x)
    np.testing.assert_allclose(played, learned, rtol=1e-4, atol=1e-5)


def test_a_new_policy_is_nearly_uniform_and_every_unit_learns():
    """The first layer starts at 0 and the units are on: the gradient reaches every one of them."""
    policy = SparseMLP(50, 8, 4)
    policy.initialise(np.random.default_rng(0))
    (outputs,) = policy.expand().forward([np.array([1, 2])])
    assert np.ptp(outputs[:4]) < 0.5
    x, out = policy.gathered(np.array([1, 2], np.int32), np.array([2])), np.empty_like(policy.theta)
    _, units = policy.forward(policy.theta, x)
    policy.backward(policy.theta, x, units, np.array([[1, -1, 0, 0, 1]], np.float32), out)
    assert np.count_nonzero(policy.views(out)[0][1]) >= 8


def test_sample_follows_softmax():
    logits = [0.5, -1.0, 2.0]
    expected = np.exp(logits) / np.exp(logits).sum()
    draws = [draw(logits, u) for u in (np.arange(30_000) + 0.5) / 30_000]
    shares = np.bincount([action for action, _ in draws], minlength=3) / 30_000
    np.testing.assert_allclose(shares, expected, atol=1e-4)
    for action, log_prob in draws[::1000]:
        assert log_prob == pytest.approx(np.log(expected[action]))


def test_sample_at_the_edges():
    assert draw([0.0, 0.0], 0.0)[0] == 0
    assert draw([0.0, 0.0], np.nextafter(1.0, 0.0))[0] == 1
    assert draw([1000.0, -1000.0], 0.999999)[0] == 0
