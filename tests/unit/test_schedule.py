"""What changes in the course of a run."""

import dataclasses

import numpy as np
import pytest

from pg_mpi.agent.policy import Policy
from pg_mpi.agent.tying import pixel_tie
from pg_mpi.batch import Batch
from pg_mpi.schedule import Stage, faster, paced, stage
from pg_mpi.settings import TrainConfig
from pg_mpi.trajectory import Trajectory


@pytest.mark.parametrize(
    "steps, anneal, kl, weight, rollouts",
    [
        (0, 1.0, 1.0, 0.3, 1),
        (250, 0.775, 0.85, 0.3, 2),
        (375, 0.6625, 0.775, 0.65, 3),
        (500, 0.55, 0.7, 1.0, 4),
        (1000, 0.1, 0.4, 1.0, 4),
        (5000, 0.1, 0.4, 1.0, 4),
    ],
)
def test_what_the_share_of_the_annealing_makes_of_the_numbers(steps, anneal, kl, weight, rollouts):
    config = TrainConfig(anneal_timesteps=1000, loss_weight=0.3, rollout_growth=4)
    found = stage(config, steps)
    assert dataclasses.astuple(found) == pytest.approx((anneal, kl, weight, rollouts))
    assert type(found.rollouts) is int


def test_without_annealing_all_stays_as_it_begins():
    config = TrainConfig(anneal_timesteps=0, loss_weight=0.3, rollout_growth=4)
    assert stage(config, 10**9) == Stage(loss_weight=0.3)


def test_what_does_not_grow_stays():
    found = stage(TrainConfig(anneal_timesteps=1000, loss_weight=1.0, rollout_growth=1), 700)
    assert (found.loss_weight, found.rollouts) == (1.0, 1)


@pytest.mark.parametrize(
    "kl, factor",
    [
        (0.03, 1.0),
        (0.03 * 1.1**4, 1 / 1.1),
        (0.03 / 1.1**4, 1.1),
        (30.0, 1 / 1.15),
        (1e-9, 1.15),
        (0.0, 1.0),
        (-1e-9, 1.0),
    ],
)
def test_the_step_follows_the_kl(kl, factor):
    found = faster(kl, 0.03)
    assert type(found) is float and found == pytest.approx(factor)


@pytest.mark.parametrize("method", ["clipped", "reinforce"])
def test_lost_points_count_their_weight_and_won_ones_count_whole(method):
    """lambda and the discount are 1 and the values 0, so an advantage is the sum of what comes."""
    trajectory = Trajectory()
    for reward in (0.0, -1.0, 0.0, 1.0):
        trajectory.record(np.array([3]), 0, -0.5, 0.0, reward, reward != 0)
    trajectory.end_game(0.0, 4)
    config = TrainConfig(method=method, gamma=1.0, gae_lambda=1.0)
    batch = Batch([trajectory], Policy(pixel_tie((80, 80), False, "off"), 2, 2), "raw", 0.3)
    batch.estimate(config)
    expected = np.array([-0.3, -0.3, 1.0, 1.0])
    if method == "reinforce":  # a game's returns are standardised
        expected = (expected - 0.35) / 0.65
    np.testing.assert_allclose(batch.advantages, expected, rtol=1e-5)
    assert trajectory.rewards.tolist() == [0.0, -1.0, 0.0, 1.0], "the record of the game is untouched"


def test_a_pace_neither_grows_nor_falls_for_ever():
    """Freeway's first updates saw no reward: nothing moved, and the learning rate grew to 12,000."""
    up = down = 1.0
    for _ in range(200):
        up, down = paced(up, 1e-9, 0.06), paced(down, 1.0, 0.06)
    assert (up, down) == (100.0, 0.01)
    assert paced(1.0, 0.06, 0.06) == 1.0 and paced(2.0, None, 0.06) == 2.0
