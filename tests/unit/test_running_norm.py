"""The running statistics of observations and returns, and the rewards that they scale."""

import numpy as np
import pytest

from pg_mpi.config.command_line import parse_train
from pg_mpi.learning.advantages import discounted_returns
from pg_mpi.learning.batch import learned
from pg_mpi.learning.trajectory import Trajectory
from pg_mpi.mpi.world import World
from pg_mpi.policy.running_norm import LIMIT, RunningNorm
from pg_mpi.run.trainer import Trainer


def test_scaled_rewards_are_divided_and_values_are_not():
    t, norm = Trajectory(), RunningNorm()
    for reward in (0.0, 7.0):
        t.record(np.array([1]), 0, 0.0, 0.0, reward, False)
    t.bootstrap(0.25)
    norm.merge(norm.sums(np.empty((2, 0)), np.array([-4.0, 4.0])))
    assert learned(t, "scaled", norm).tolist() == [0, 7 / 4 + 0.25]


def test_norm_of_a_run_is_of_returns(tmp_path):
    flags = ["--env-id", "CartPole-v1", "--hidden", "4", "--num-steps", "64", "--run-dir", str(tmp_path / "run")]
    trainer = Trainer(World(), *parse_train(flags))
    played = trainer.play()
    trainer.learn(played)
    returns = [discounted_returns(t.rewards, t.ends, trainer.config.gamma) for t in played]
    assert trainer.config.rewards == "scaled"
    assert trainer.learner.policy.norm.reward_factor == pytest.approx(1 / np.std(np.concatenate(returns)))


def test_running_norm_has_the_mean_and_deviation_of_all_observations():
    """Sums are merged over rounds and envs of any length. The mean is large compared to the deviation."""
    rng = np.random.default_rng(10)
    observations = 1e4 + rng.normal(size=(600, 3)) * [1, 10, 0.01]
    norm = RunningNorm(observations[0])
    for envs in np.split(observations, [100, 101, 101, 350]):
        parts = [norm.sums(env, np.zeros(len(env))) for env in np.array_split(envs, 3)]
        norm.merge(sum(parts))
    scaled = norm.scaled(observations)
    np.testing.assert_allclose(
        scaled, np.clip((observations - observations.mean(0)) / observations.std(0), -LIMIT, LIMIT), atol=1e-6
    )
    assert norm.reward_factor == 1.0, "constant returns are scaled"


def test_running_norm_scales_small_numbers_and_leaves_the_rounding_of_a_constant():
    rng = np.random.default_rng(12)
    small, constant = 5e-5 * rng.choice([-1, 1], 500), np.float32(0.1) + np.float32(1e-9) * rng.random(500)
    observations = np.column_stack((small, constant))
    norm = RunningNorm(observations[0])
    norm.merge(norm.sums(observations, np.zeros(500)))
    scaled = norm.scaled(observations)
    assert scaled[:, 0].std() == pytest.approx(1) and abs(scaled[:, 1]).max() < 1e-6


def test_running_norm_scales_returns_to_deviation_1():
    rng = np.random.default_rng(11)
    norm, gamma = RunningNorm(), 0.9
    rewards, ends = 100 * rng.normal(size=500), rng.random(500) < 0.05
    assert norm.reward_factor == 1.0
    norm.merge(norm.sums(np.empty((500, 0)), discounted_returns(rewards, ends, gamma)))
    returns, after = [], 0.0
    for reward, end in zip(rewards[::-1], ends[::-1]):
        after = reward + gamma * after * (not end)
        returns.append(after)
    assert norm.reward_factor == pytest.approx(1 / np.std(returns))


@pytest.mark.parametrize("reward", [1e200, np.inf, np.nan])
def test_running_norm_leaves_out_a_round_that_is_not_finite(reward):
    norm = RunningNorm(np.zeros(1))
    norm.merge(norm.sums(np.ones((3, 1)), np.arange(3.0)))
    before = norm.state.copy()
    with np.errstate(all="ignore"):
        norm.merge(norm.sums(np.ones((3, 1)), np.array([1.0, reward, 2.0])))
    np.testing.assert_array_equal(norm.state, before)
    norm.merge(norm.sums(np.ones((3, 1)), np.arange(3.0)))
    assert np.isfinite(norm.state).all() and norm.state[0] == 6
