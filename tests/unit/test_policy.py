"""What the policy computes: against dense arithmetic, and as a distribution."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from pg_mpi.agent.network import sample
from pg_mpi.agent.policy import Policy
from pg_mpi.agent.tying import pixel_tie
from pg_mpi.game import actions as game_actions
from pg_mpi.game.actions import CODES

SHAPE = (80, 80)


def test_plain_policy_equals_dense_arithmetic():
    rng = np.random.default_rng(0)
    policy = Policy(pixel_tie(SHAPE, False, "off", np.float64), 16, 3, dtype=np.float64)
    policy.theta[...] = rng.normal(size=policy.theta.size)
    first, heads, bias, head_bias = policy.views(policy.theta)
    active = np.sort(rng.choice(12_800, 65, replace=False))
    dense = np.zeros(12_800)
    dense[active] = 1
    expected = np.maximum(dense @ first + bias, 0) @ heads + head_bias
    (outputs,) = policy.expand().forward([active])
    np.testing.assert_allclose(outputs, expected, rtol=1e-12)


def test_difference_tie_is_plus_minus_one():
    rng = np.random.default_rng(1)
    policy = Policy(
        pixel_tie(SHAPE, True, "off", np.float64),
        8,
        2,
        value=False,
        biases=False,
        parts=np.array([[1], [0]]),
        dtype=np.float64,
    )
    policy.theta[...] = rng.normal(size=policy.theta.size)
    first, heads, _, _ = policy.views(policy.theta)
    frame = np.zeros(6400)
    frame[[5, 70]], frame[[9, 6399]] = 1, -1
    logit = np.maximum(frame @ first, 0) @ heads[:, 0]
    (outputs,) = policy.expand().forward([np.array([5, 70, 6400 + 9, 6400 + 6399])])
    np.testing.assert_allclose(outputs, [logit, 0, 0], rtol=1e-12)


def test_tiles_share_weights_between_neighbours():
    tie = pixel_tie(SHAPE, False, "on").tocsr()
    shared = (tie @ tie.T).tocsr()
    here = 40 * 80 + 40
    assert shared[here, here + 1] == 2  # the same 4 x 4 tile and the same band of eight columns
    assert shared[here, here + 5] == 1  # the band alone
    assert shared[here, here + 80] == 1  # the next row: the square tile alone
    assert shared[here, here + 6400] == 0  # the other plane shares nothing


def test_a_logit_is_the_sum_of_its_parts():
    codes = [CODES[name] for name in ("NOOP", "FIRE", "UP", "LEFTFIRE", "UPLEFT")]
    made_of = game_actions.parts(codes)
    assert made_of == [[0, 0, 0], [0, 0, 1], [1, 0, 0], [0, 1, 1], [1, 1, 0]]
    rng = np.random.default_rng(5)
    policy = Policy(pixel_tie(SHAPE, False, "only"), 8, 5, parts=made_of)
    policy.theta[...] = rng.normal(size=policy.theta.size)
    ((noop, fire, up, left_fire, up_left, value),) = policy.expand().forward([np.array([3, 900, 7000])])
    assert noop == 0 and min(map(abs, (fire, up, value))) > 1e-3
    assert left_fire - fire == pytest.approx(up_left - up, rel=1e-5)


def test_a_refreshed_network_is_the_expanded_one_bit_for_bit():
    rng = np.random.default_rng(4)
    policy = Policy(pixel_tie(SHAPE, False, "only"), 16, 3)
    policy.theta[...] = rng.normal(size=policy.theta.size)
    network, rows = policy.expand(), np.array([0, 7, 900, policy.rows - 1])
    part = policy.take(policy.theta, rows)
    policy.put(policy.theta, rows, part + rng.normal(size=part.size).astype(np.float32))
    stale, fresh = network.table.copy(), policy.expand()
    assert 25 < (stale != fresh.table).any(axis=1).sum() < 500, "some inputs changed, most did not"
    policy.refresh(network, rows)
    for name in ("table", "bias", "heads", "head_bias"):
        np.testing.assert_array_equal(getattr(network, name), getattr(fresh, name))


@pytest.mark.parametrize("difference", [False, True])
def test_playing_and_learning_compute_the_same(difference):
    """Rows of the expanded table summed, against the batch projected on the parameters."""
    rng = np.random.default_rng(3)
    policy = Policy(pixel_tie(SHAPE, difference, "on"), 32, 3)
    policy.theta[...] = rng.normal(size=policy.theta.size) * 0.05
    seen = [np.sort(rng.choice(12_800, n, replace=False)) for n in (0, 1, 65, 300)]
    starts = np.cumsum([0, *map(len, seen)])
    x = csr_matrix((np.ones(starts[-1], np.float32), np.concatenate(seen), starts), shape=(4, 12_800))
    played, (learned, _) = policy.expand().forward(seen), policy.forward(policy.theta, policy.project(x))
    np.testing.assert_allclose(played, learned, rtol=1e-4, atol=1e-5)


def test_sample_follows_softmax():
    logits = [0.5, -1.0, 2.0]
    expected = np.exp(logits) / np.exp(logits).sum()
    draws = [sample(logits, u) for u in (np.arange(30_000) + 0.5) / 30_000]
    shares = np.bincount([action for action, _ in draws], minlength=3) / 30_000
    np.testing.assert_allclose(shares, expected, atol=1e-4)
    for action, log_prob in draws[::1000]:
        assert log_prob == pytest.approx(np.log(expected[action]))


def test_sample_at_the_edges():
    assert sample([0.0, 0.0], 0.0)[0] == 0
    assert sample([0.0, 0.0], np.nextafter(1.0, 0.0))[0] == 1
    assert sample([1000.0, -1000.0], 0.999999)[0] == 0
