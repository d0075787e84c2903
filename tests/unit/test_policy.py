"""The sparse policy: outputs match dense arithmetic, and draws follow the softmax."""

import numpy as np
import pytest

from pg_mpi.policy.mlp import MLP
from pg_mpi.policy.network import SparseNetwork, draw
from pg_mpi.policy.sparse_mlp import SparseMLP

INPUTS = 12_800


def test_outputs_equal_dense_arithmetic():
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
    policy = SparseMLP(INPUTS, 8, 2, sigmoid=True, signed=True, plain=True, dtype=np.float64)
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


def test_operations_of_a_batch_of_two():
    """Of 3 hidden units, 2 logits and a value, so 6 units, each read by 3 outputs."""
    policy = SparseMLP(5, 3, 2)
    first, last = 2 * 4 * 6, 2 * 2 * 6 * 3
    assert policy.expand().flops(steps=2, active=4) == first + last
    batch = policy.gathered(np.array([0, 3, 1, 4]), np.array([1, 3]))
    assert policy.operations(batch) == first + last + (first + 2 * last)


@pytest.mark.parametrize("signed", [False, True])
def test_refreshed_network_equals_a_new_one(signed):
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
def test_sampling_and_learning_compute_the_same_outputs(signed):
    rng = np.random.default_rng(3)
    policy = SparseMLP(INPUTS, 32, 3, signed=signed)
    policy.theta[...] = rng.normal(size=policy.theta.size) * 0.05
    observations = [np.sort(rng.choice(INPUTS, n, replace=False)) for n in (0, 1, 65, 300)]
    x = policy.gathered(np.concatenate(observations).astype(np.int32), np.array([len(each) for each in observations]))
    sampled, (learned, _) = policy.expand().forward(observations), policy.forward(policy.theta, x)
    np.testing.assert_allclose(sampled, learned, rtol=1e-4, atol=1e-5)


def test_initial_policy_is_nearly_uniform_and_all_units_have_gradients():
    """The first layer starts at 0 and all units are active, so each of them has a gradient."""
    policy = SparseMLP(50, 8, 4)
    policy.initialise(np.random.default_rng(0))
    (outputs,) = policy.expand().forward([np.array([1, 2])])
    assert np.ptp(outputs[:4]) < 0.5
    x, out = policy.gathered(np.array([1, 2], np.int32), np.array([2])), np.empty_like(policy.theta)
    _, units = policy.forward(policy.theta, x)
    policy.backward(policy.theta, x, units, np.array([[1, -1, 0, 0, 1]], np.float32), out)
    assert np.count_nonzero(policy.views(out)[0][1]) >= 8


def test_draws_follow_the_softmax():
    logits = [0.5, -1.0, 2.0]
    expected = np.exp(logits) / np.exp(logits).sum()
    draws = [draw(logits, u) for u in (np.arange(30_000) + 0.5) / 30_000]
    frequencies = np.bincount([action for action, _ in draws], minlength=3) / 30_000
    np.testing.assert_allclose(frequencies, expected, atol=1e-4)
    for action, log_prob in draws[::1000]:
        assert log_prob == pytest.approx(np.log(expected[action]))


def test_draws_at_the_limits():
    assert draw([0.0, 0.0], 0.0)[0] == 0
    assert draw([0.0, 0.0], np.nextafter(1.0, 0.0))[0] == 1
    assert draw([1000.0, -1000.0], 0.999999)[0] == 0


def test_likeliest_action_of_each_observation():
    network = SparseNetwork(np.array([[0.5], [-1.0]]), np.full(1, -np.inf))
    network.load(np.array([[1.0, 2.0, -1.0, 70.0]]), np.zeros(1), np.zeros(4))
    assert [network.likeliest(np.array([each])) for each in (0, 1)] == [1, 2]


def test_mlp_begins_with_nearly_equal_logits():
    net = MLP(4, 3, 0, np.random.default_rng(0))
    outputs = net.forward(np.random.default_rng(1).normal(size=(50, 4)))
    assert np.abs(outputs[:, :3]).max() < 0.1 < np.abs(outputs[:, 3]).max()
