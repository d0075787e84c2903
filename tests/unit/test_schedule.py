"""Annealing, the number of minibatches, and the advantages of a batch."""

import numpy as np
import pytest

from pg_mpi.config.settings import TrainConfig
from pg_mpi.learning.batch import Batch
from pg_mpi.learning.round_length import longest_round
from pg_mpi.learning.schedule import annealing, plan
from pg_mpi.learning.trajectory import Trajectory
from pg_mpi.policy.sparse_mlp import SparseMLP
from pg_mpi.run.counters import Counters


@pytest.mark.parametrize("frames, steps", [(3, 1), (200, 50), (201, 51), (108_000, 1024)])
def test_longest_round_has_every_step_of_the_longest_game(frames, steps):
    assert longest_round(TrainConfig(max_frames=frames)) == steps


def test_annealing_is_1_if_disabled():
    assert annealing(TrainConfig(anneal_timesteps=0), 1e9) == 1.0


@pytest.mark.parametrize("gone, factor", [(0.0, 1.0), (2e6, 0.55), (4e6, 0.1), (6e6, 0.1)])
def test_annealing_is_linear(gone, factor):
    assert annealing(TrainConfig(), gone) == pytest.approx(factor)


@pytest.mark.parametrize(
    "settings, samples, count, size",
    [
        ({}, 128, 1, 1 / 16),
        ({}, 1024, 1, 0.5),
        ({}, 2048, 1, 1.0),
        ({}, 6144, 3, 1.0),
        ({}, 5632, 3, 0.91666667),
        ({}, 16_384, 8, 1.0),
        ({}, 49_152, 8, 3.0),
        ({}, 1_048_576, 8, 64.0),
        ({"max_minibatches": 100_000}, 1_048_576, 512, 1.0),
        ({"minibatch_size": 524_288}, 1_048_576, 2, 1.0),
    ],
)
def test_minibatches_grow_once_an_epoch_has_8(settings, samples, count, size):
    planned = plan(TrainConfig(**settings), samples)
    assert planned.minibatches == count
    assert planned.rate == pytest.approx(min(2.0, size**0.5))
    assert planned.progress == pytest.approx(samples * min(1.0, 4.0 / size))


def test_sum_of_squared_learning_rates_is_the_same_on_any_number_of_envs():
    """Rounds of changing length, as with ``--sync episode``; 4 epochs of minibatches."""
    sums = []
    for envs in (1, 16, 64, 1024):
        counters, config, rates = Counters(), TrainConfig(anneal_timesteps=1_000_000), 0.0
        while annealing(config, counters.anneal_steps) > 0.1:
            samples = envs * (256 + 64 * (counters.update % 8))
            planned = plan(config, samples, counters.anneal_steps)
            counters.add(samples, 0, [], 0, planned.progress)
            rates += 4 * planned.minibatches * planned.rate**2
        sums.append(rates)
    assert sums == pytest.approx([0.37 * 4 * 1_000_000 / 2048] * 4, rel=0.1)
    restored = Counters()
    restored.restore(counters.state())
    assert restored.anneal_steps == counters.anneal_steps < counters.env_steps


def test_round_without_samples_has_a_plan():
    """Its only step raised in the emulator."""
    planned = plan(TrainConfig(), 0)
    assert planned.minibatches == 1 and 0 < planned.rate < 1 and planned.progress == 0


def test_reinforce_has_one_exchange_on_any_number_of_envs():
    planned = plan(TrainConfig(method="reinforce"), 1_048_576)
    assert (planned.minibatches, planned.rate) == (1, 1.0)


@pytest.mark.parametrize("method", ["clipped", "reinforce"])
def test_advantage_is_the_sum_of_rewards_until_an_end(method):
    """Lambda and discount are 1, and the values are 0. These advantages are standardised already."""
    trajectory = Trajectory()
    for reward in (0.0, -1.0, 0.0, 1.0):
        trajectory.record(np.array([3]), 0, -0.5, 0.0, reward, reward != 0)
    trajectory.end_game(0.0, 4)
    config = TrainConfig(method=method, gamma=1.0, gae_lambda=1.0)
    batch = Batch([trajectory], SparseMLP(12_800, 2, 2), "raw")
    batch.estimate(config)
    np.testing.assert_allclose(batch.advantages, [-1.0, -1.0, 1.0, 1.0], rtol=1e-5)
