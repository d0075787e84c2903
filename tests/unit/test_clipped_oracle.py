"""The clipped update follows an independent dense implementation: tests/oracle/clipped_dense.py."""

import numpy as np
import pytest
from oracle.clipped_dense import ClippedLearner, Rollout

from pg_mpi.config.command_line import parse_train
from pg_mpi.learning.optimizer import Adam
from pg_mpi.learning.parameter_store import ParameterStore
from pg_mpi.learning.phases import PhaseTimer
from pg_mpi.learning.sample_groups import SampleGroup
from pg_mpi.learning.schedule import Plan
from pg_mpi.learning.trajectory import Trajectory
from pg_mpi.mpi.world import World
from pg_mpi.policy.sparse_mlp import SparseMLP
from pg_mpi.run import factory

INPUTS, HIDDEN, ACTIONS = 24, 5, 3
EPOCHS, MINIBATCHES = 3, 3
COEFFICIENTS = {"gamma": 0.9, "gae_lambda": 0.8, "clip_coef": 0.25, "vf_coef": 0.7, "max_grad_norm": 0.6}
LEARNING_RATE, ENT_COEF = 0.01, 0.05

#: For each update: fraction of rewarded steps, inputs that occur, factors on learning rate and entropy bonus.
UPDATES = [(0.3, range(0, 18), 1.0, 1.0), (0.3, range(6, 24), 0.7, 0.4), (0.0, range(0, 24, 2), 0.4, 0.0)]


def random_rollout(rng, length, rewarded, inputs):
    """Return a rollout with terminal and truncated steps that ends within an episode."""
    ends = rng.random(length) < 0.2
    truncated = ends & (rng.random(length) < 0.5)
    ends[-1] = False
    after = np.where(truncated, rng.normal(size=length), 0.0)
    after[-1] = rng.normal()
    x = np.zeros((length, INPUTS))
    for row in x:
        row[rng.choice(inputs, rng.integers(0, 6), replace=False)] = 1
    rewards = rng.choice([-1.0, 0.0, 1.0], length, p=[rewarded / 2, 1 - rewarded, rewarded / 2])
    log_probs = np.log(rng.uniform(0.2, 0.5, length))
    return Rollout(x, rng.integers(ACTIONS, size=length), log_probs, rng.normal(size=length), rewards, ends, after)


def as_trajectory(rollout):
    """Convert a rollout to a ``Trajectory``."""
    r, trajectory = rollout, Trajectory()
    for t in range(len(r.actions)):
        trajectory.record(
            np.flatnonzero(r.x[t]), r.actions[t], r.log_probs[t], r.values[t], r.rewards[t], bool(r.ends[t])
        )
        if r.ends[t]:
            if r.after[t]:
                trajectory.bootstrap(COEFFICIENTS["gamma"] * r.after[t])
            trajectory.end_game(0, 1)
    trajectory.last_value = r.after[-1]
    return trajectory


def config_of(*flags):
    """Return the ``TrainConfig`` of the updates."""
    options = {**COEFFICIENTS, "learning_rate": LEARNING_RATE, "ent_coef": ENT_COEF, "update_epochs": EPOCHS}
    args = [str(word) for name, value in options.items() for word in ("--" + name.replace("_", "-"), value)]
    return parse_train(["--env-id", "ALE/Breakout-v5", *args, *flags])[0]


def split_minibatches(order):
    """Split an order of samples into minibatches whose sizes differ by at most one."""
    return np.split(order, [len(order) * k // MINIBATCHES for k in range(1, MINIBATCHES)])


def sample_numbers(groups):
    """Return the sample numbers of each group of rollouts: a list of int arrays."""
    counts = [sum(len(rollout.actions) for rollout in group) for group in groups]
    return np.split(np.arange(sum(counts)), np.cumsum(counts)[:-1])


@pytest.mark.parametrize(
    ("flags", "lengths", "tolerance"),
    [((), (25, 16, 21), 1e-12), (("--reproducible",), (24, 15, 21), 1e-7)],  # sums are rounded for each env
    ids=["plain", "reproducible"],
)
def test_three_updates_follow_the_oracle(flags, lengths, tolerance):
    rng = np.random.default_rng(1)
    policy = SparseMLP(INPUTS, HIDDEN, ACTIONS, dtype=np.float64)
    policy.theta[...] = 0.5 * rng.normal(size=policy.theta.size)
    config = config_of(*flags)
    store = ParameterStore(policy, Adam(policy.theta.size, dtype=np.float64), config)
    learner = factory.make_learner(config, policy, World(), PhaseTimer(), store=store)

    def parameters():
        first, w2, b1, b2 = policy.views(policy.theta)
        return {"w1": first[:, :HIDDEN], "w3": first[:, HIDDEN:], "w2": w2, "b1": b1, "b2": b2}

    oracle = ClippedLearner(parameters(), **COEFFICIENTS)
    shuffles, oracle_shuffles = ([np.random.default_rng([seed, 7]) for seed in range(len(lengths))] for _ in range(2))
    norms = []
    for rewarded, inputs, rate, bonus in UPDATES:
        before = policy.theta.copy()
        rollouts = [random_rollout(rng, length, rewarded, list(inputs)) for length in lengths]
        groups = [[rollout] for rollout in rollouts] if flags else [rollouts]
        samples = [
            SampleGroup([as_trajectory(rollout) for rollout in group], shuffle, index, len(groups))
            for index, (group, shuffle) in enumerate(zip(groups, shuffles))
        ]
        stats = learner.update(samples, Plan(MINIBATCHES, bonus, rate, 0.0))

        epochs = []
        for _ in range(EPOCHS):
            parts = [
                split_minibatches(numbers[shuffle.permutation(len(numbers))])
                for numbers, shuffle in zip(sample_numbers(groups), oracle_shuffles)
            ]
            epochs.append([np.concatenate(minibatch) for minibatch in zip(*parts)])
        expected = oracle.update(rollouts, epochs, LEARNING_RATE * rate, ENT_COEF * bonus)

        for name, value in parameters().items():
            np.testing.assert_allclose(value, oracle.theta[name], rtol=0, atol=tolerance, err_msg=name)
        norms += expected["grad_norm"]
        expected["grad_norm"] = np.mean(expected["grad_norm"])
        for name, value in expected.items():
            assert stats[name] == pytest.approx(value, rel=1e-5 if flags else 1e-9), name
        assert stats["learning_rate"] == pytest.approx(LEARNING_RATE * rate)
        assert 0.05 < stats["clip_fraction"] < 0.95 and np.abs(policy.theta - before).max() > LEARNING_RATE * rate
    assert min(norms) < COEFFICIENTS["max_grad_norm"] < max(norms), "all norms are clipped, or none is"
