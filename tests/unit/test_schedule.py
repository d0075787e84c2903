"""No annealing, and the advantages of a batch."""

import numpy as np
import pytest

from pg_mpi.config.settings import TrainConfig
from pg_mpi.learning.batch import Batch
from pg_mpi.learning.schedule import annealing
from pg_mpi.learning.trajectory import Trajectory
from pg_mpi.policy.sparse_mlp import SparseMLP


def test_annealing_is_1_if_disabled():
    assert annealing(TrainConfig(anneal_timesteps=0), 10**9) == 1.0


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
