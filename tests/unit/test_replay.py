"""The replay buffer: draws have their exact probabilities, contents follow a list."""

import math
from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from derivatives import numeric
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from pg_mpi.config.settings import TrainConfig
from pg_mpi.learning.phases import PhaseTimer
from pg_mpi.learning.self_imitation import source as sil
from pg_mpi.learning.self_imitation.replay_buffer import ROOM, TRANSITION, ReplayBuffer
from pg_mpi.learning.update_buffers import UpdateBuffers
from pg_mpi.mpi.world import World
from pg_mpi.policy.sparse_mlp import SparseMLP
from scaling.model.virtual.world import Hub


def weights(returns):
    """Return the sampling weights: the returns, shifted so that the lowest negative return has weight 0."""
    return returns + abs(min(returns.min(), 0.0))


def buffer_of(returns):
    """A buffer of these returns, in which each place is that of its return."""
    buffer = ReplayBuffer(len(returns), INPUTS)
    add(buffer, [([], 0, value) for value in returns])
    return buffer


def probability(order, w):
    """Return the probability of drawing these places in this order, without replacement."""
    total, chance = w.sum(), 1.0
    for place in order:
        chance *= w[place] / total
        total -= w[place]
    return chance


RETURNS = {
    "positive": [0.5, 1.0, 2.0, 4.0, 0.25],
    "negative": [-1.0, -0.5, 0.75, -0.25, 2.0],
    "all negative": [-1.0, -3.0, -2.0, -0.5, -4.0],
    "with ties": [1.0, 1.0, 1.0, -1.0, 3.0],
    "equal": [2.0, 2.0, 2.0, 2.0, 2.0],
}


@pytest.mark.parametrize("name", RETURNS)
@pytest.mark.parametrize("count", [1, 2, 3])
def test_ordered_draws_have_their_exact_probabilities(name, count):
    returns = np.array(RETURNS[name])
    buffer, rng, draws = buffer_of(returns), np.random.default_rng(1), 3_000
    counts = Counter(tuple(buffer.draw(count, rng).tolist()) for _ in range(draws))
    expected = {order: probability(order, weights(returns)) for order in permutations(range(5), count)}
    expected = {order: chance for order, chance in expected.items() if chance > 0}
    assert counts.keys() <= expected.keys() and sum(expected.values()) == pytest.approx(1)
    observed = [counts[order] for order in expected]
    assert stats.chisquare(observed, draws * np.array(list(expected.values()))).pvalue > 1e-4


def test_zero_weights_are_drawn_last_and_uniformly():
    buffer, rng = buffer_of([-1.0, 3.0, -1.0, -1.0, 1.0]), np.random.default_rng(0)
    last = Counter()
    for _ in range(6000):
        drawn = buffer.draw(3, rng).tolist()
        assert set(drawn[:2]) == {1, 4}
        last[drawn[2]] += 1
    assert set(last) == {0, 2, 3} and stats.chisquare(list(last.values())).pvalue > 1e-4
    zero = buffer_of([0.0] * 40)
    firsts = np.bincount([zero.draw(7, rng)[0] for _ in range(4000)], minlength=40)
    assert stats.chisquare(firsts).pvalue > 1e-4
    assert sorted(zero.draw(40, rng)) == list(range(40))


# -- the buffer -----------------------------------------------------------------------------------------------


class ListBuffer:
    """A replay buffer as a list of transitions, with the same two limits."""

    def __init__(self, capacity):
        self.capacity, self.items = capacity, []

    def add(self, transitions):
        for each in transitions:
            self.items.append(each)
        while len(self.items) > self.capacity or sum(len(t[0]) for t in self.items) > ROOM * self.capacity:
            self.items.pop(0)


INPUTS = 300
transition = st.tuples(
    st.builds(
        lambda first, size: [(first + 7 * i) % INPUTS for i in range(size)],
        st.integers(0, 99),
        st.integers(0, 3 * ROOM),
    ),
    st.integers(0, 5),
    st.sampled_from([-1.0, -0.5, 0.0, 0.25, 1.0]),
)


def contents(buffer):
    observed, counts, actions, returns = buffer.read(np.arange(len(buffer)))
    parts = np.split(observed, np.cumsum(counts)[:-1]) if len(counts) else []
    return [(part.tolist(), action, value) for part, action, value in zip(parts, actions.tolist(), returns.tolist())]


def add(buffer, transitions):
    observed = np.array([index for t in transitions for index in t[0]], dtype=np.int64)
    counts = np.array([len(t[0]) for t in transitions], dtype=np.int64)
    actions = np.array([t[1] for t in transitions], dtype=np.int64)
    buffer.add(observed, counts, actions, np.array([t[2] for t in transitions], dtype=float))


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 40), st.lists(st.lists(transition, max_size=25), max_size=8), st.integers(0, 2**32 - 1))
def test_buffer_equals_a_list(capacity, batches, seed):
    buffer, reference, rng = ReplayBuffer(capacity, INPUTS), ListBuffer(capacity), np.random.default_rng(seed)
    for batch in batches:
        add(buffer, batch)
        reference.add(batch)
        assert contents(buffer) == reference.items and len(buffer) == len(reference.items)
        if reference.items:
            lowest = min(value for _, _, value in reference.items)
            drawn = buffer.draw(rng.integers(1, len(buffer) + 1), rng)
            heavy = sum(value > min(lowest, 0.0) for _, _, value in reference.items)
            values = buffer.read(drawn)[3]
            assert len(set(drawn.tolist())) == len(drawn)
            assert (values[:heavy] > min(lowest, 0.0)).all() and (values[heavy:] == min(lowest, 0.0)).all()


@settings(max_examples=50, deadline=None)
@given(st.lists(transition, max_size=60))
def test_restored_buffer_is_equal(transitions):
    buffer, restored = ReplayBuffer(20, INPUTS), ReplayBuffer(20, INPUTS)
    for begin in range(0, len(transitions), 9):
        add(buffer, transitions[begin : begin + 9])
    restored.append(buffer.state())
    assert contents(restored) == contents(buffer)
    if len(buffer):
        draws = [each.draw(len(buffer), np.random.default_rng(5)).tolist() for each in (buffer, restored)]
        assert draws[0] == draws[1]
    add(buffer, transitions[:7])
    add(restored, transitions[:7])
    assert contents(restored) == contents(buffer)


def test_state_size_is_bounded():
    buffer = ReplayBuffer(40, 87_618)
    for _ in range(50):
        add(buffer, [(list(range(200)), 0, 0.5)])
    state = buffer.state()
    assert sum(array.nbytes for array in state.values()) <= 40 * TRANSITION
    assert len(state["counts"]) == 40 * ROOM // 200


def test_inputs_have_the_smallest_integer_type():
    small, large = ReplayBuffer(1000, 12_800), ReplayBuffer(1000, 87_618)
    assert (small.state()["observed"].dtype, large.state()["observed"].dtype) == (np.uint16, np.uint32)


@pytest.mark.parametrize(
    "change",
    [
        {"counts": np.array([1, 2])},
        {"counts": np.array([-1, 3, 0])},
        {"observed": np.array([1, INPUTS])},
        {"returns": np.array([0.0, np.nan, 1.0])},
        {"returns": np.array([0.0, 1e39, 1.0])},
        {"returns": np.array(["0", "x", "1"])},
        {"actions": np.array([[1, 2, 3]])},
        {"actions": np.array([1, -1, 3])},
        {"counts": np.array([2**63, 2**63, 2], dtype=np.uint64)},
    ],
)
def test_malformed_buffer_state_is_refused(change):
    state = {"observed": np.array([1, 2]), "counts": np.array([1, 1, 0])}
    state |= {"actions": np.array([1, 2, 3]), "returns": np.zeros(3)}
    ReplayBuffer(5, INPUTS).append(state)
    with pytest.raises(ValueError):
        ReplayBuffer(5, INPUTS).append(state | change)


def test_gradient_is_the_finite_difference():
    rng = np.random.default_rng(0)
    policy = SparseMLP(20, 3, 2, dtype=np.float64)
    policy.theta[...] = 0.3 * rng.normal(size=policy.theta.size)
    source = sil.SelfImitation(policy, TrainConfig(), World(), PhaseTimer())
    n = 12
    x = policy.gathered(rng.integers(20, size=n), np.ones(n, int))
    returns, actions = rng.normal(size=n), rng.integers(2, size=n)
    source.prepare([])
    buffers = UpdateBuffers(policy.theta.copy(), None, 0.1, 0.0, 0)
    source._write_gradient(buffers, sil.Drawn(x, actions, returns))
    start = policy.forward(policy.theta, x)[0][:, -1]
    gain = np.maximum(returns - start, 0)

    def loss(theta):
        outputs = policy.forward(theta, x)[0]
        logits = outputs[:, :-1]
        log_pi = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        values = np.maximum(returns - outputs[:, -1], 0) ** 2 / 2
        return 0.1 * (-(gain * log_pi[np.arange(n), actions]).sum() + 0.01 * values.sum())

    np.testing.assert_allclose(buffers.out, numeric(loss, policy.theta.copy()), atol=1e-7)


def test_ranks_draw_a_batch_together_from_streams_of_their_own(monkeypatch):
    monkeypatch.setattr(sil, "BATCH", 10)
    policy = SparseMLP(20, 3, 2)

    def main(world):
        source = sil.SelfImitation(policy, TrainConfig(), world, PhaseTimer())
        source.replay.add(np.arange(100) % 20, np.ones(100, int), np.zeros(100, int), np.arange(100.0))
        source.prepare([])
        return [len(each.actions) for each in source._batches], source._rng.random()

    found = Hub(3, lambda size: 0.0).run(main)
    assert np.sum([each for each, _ in found], axis=0).tolist() == [10] * 4
    assert len({drawn for _, drawn in found}) == 3


def test_gradient_of_replayed_transitions_is_clipped():
    source = sil.SelfImitation(SparseMLP(20, 3, 2), TrainConfig(max_grad_norm=0.3), World(), PhaseTimer())
    source.prepare([])
    limits = []
    source.learn(None, lambda buffers, weight, limit=math.inf: limits.append(limit))
    assert limits == [0.3] * 4
