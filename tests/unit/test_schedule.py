"""The annealing factor, and the advantages of a batch."""

import numpy as np
import pytest

from pg_mpi.config.settings import TrainConfig
from pg_mpi.learning.batch import Batch
from pg_mpi.learning.schedule import annealing
from pg_mpi.learning.trajectory import Trajectory
from pg_mpi.policy.sparse_mlp import SparseMLP


@pytest.mark.parametrize("steps, factor", [(0, 1.0), (250, 0.775), (500, 0.55), (1000, 0.1), (5000, 0.1)])
def test_the_factor_falls_linearly_to_a_tenth(steps, factor):
    assert annealing(TrainConfig(anneal_timesteps=1000), steps) == pytest.approx(factor)


def test_without_annealing_the_factor_is_1():
    assert annealing(TrainConfig(anneal_timesteps=0), 10**9) == 1.0


@pytest.mark.parametrize("method", ["clipped", "reinforce"])
def test_an_advantage_is_the_sum_of_the_rewards_up_to_an_end(method):
    """Lambda and the discount are 1 and the values 0. REINFORCE standardises: here to what it was."""
    trajectory = Trajectory()
    for reward in (0.0, -1.0, 0.0, 1.0):
        trajectory.record(np.array([3]), 0, -0.5, 0.0, reward, reward != 0)
    trajectory.end_game(0.0, 4)
    config = TrainConfig(method=method, gamma=1.0, gae_lambda=1.0)
    batch = Batch([trajectory], SparseMLP(12_800, 2, 2), "raw")
    batch.estimate(config)
    np.testing.assert_allclose(batch.advantages, [-1.0, -1.0, 1.0, 1.0], rtol=1e-5)
