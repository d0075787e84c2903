"""Annealing, the number of minibatches, and the advantages of a batch."""

import numpy as np
import pytest

from pg_mpi.config.settings import TrainConfig
from pg_mpi.learning.batch import Batch
from pg_mpi.learning.schedule import annealing, growth, minibatches
from pg_mpi.learning.trajectory import Trajectory
from pg_mpi.policy.sparse_mlp import SparseMLP


def test_annealing_is_1_if_disabled():
    assert annealing(TrainConfig(anneal_timesteps=0), 10**9, 1) == 1.0


@pytest.mark.parametrize(
    "settings, envs, samples, count, size",
    [
        ({"sync": "steps"}, 1, 128, 1, 1.0),
        ({"sync": "steps"}, 16, 2048, 4, 1.0),
        ({"sync": "steps"}, 128, 16_384, 32, 1.0),
        ({"sync": "steps"}, 8192, 1_048_576, 32, 64.0),
        ({"sync": "steps", "max_minibatches": 100_000}, 8192, 1_048_576, 2048, 1.0),
        ({"sync": "steps", "minibatch_size": 524_288}, 8192, 1_048_576, 2, 1.0),
        ({}, 2, 1600, 3, 1.0),
        ({}, 1024, 102_400, 32, 64.0),
        ({"max_frames": 400}, 1024, 102_400, 32, 6.25),
    ],
)
def test_minibatches_grow_once_an_epoch_has_many(settings, envs, samples, count, size):
    """They have 512 samples until an epoch has 32; then they grow, and annealing takes as many more steps."""
    config = TrainConfig(**settings)
    assert minibatches(config, samples) == count
    assert growth(config, envs) == size
    for part, factor in ((0.0, 1.0), (0.5, 0.55), (1.0, 0.1), (3.0, 0.1)):
        assert annealing(config, round(part * size * 2_000_000), envs) == pytest.approx(factor)


def test_reinforce_has_one_exchange_on_any_number_of_envs():
    assert growth(TrainConfig(method="reinforce"), 8192) == 1.0


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
