"""Advantages of played rollouts for known values: a truncated episode or rollout bootstraps."""

import numpy as np
import pytest

from pg_mpi.config.command_line import parse_train
from pg_mpi.env import registry
from pg_mpi.learning import round_length as lengths
from pg_mpi.learning.batch import Batch
from pg_mpi.learning.phases import PhaseTimer
from pg_mpi.learning.rollout import Env, Player
from pg_mpi.learning.round_length import round_length
from pg_mpi.policy.custom_policy import CustomPolicy
from pg_mpi.policy.distributions import Categorical

GAMMA = GAE_LAMBDA = 0.5

#: The value of the state after k steps of an episode. The reward of a step is 1: delta_k = 1 + V_{k+1} / 2 - V_k.
VALUES = [8, 4, 16, 2, 32]

# Advantages A_k = delta_k + A_{k+1} / 4, by hand.
#: Four steps. The value of the state after the truncated one counts: delta = -5, 5, -14, 1 + 32 / 2 - 2.
TRUNCATED = [-4.390625, 2.4375, -10.25, 15]
#: Three steps. Nothing follows the terminal one: delta = -5, 5, 1 - 16.
TERMINATED = [-4.6875, 1.25, -15]
#: The first k steps of an episode, then the end of the rollout: delta = -5, 5, -14.
CUT = [[], [-5], [-3.75, 5], [-4.625, 1.5, -14]]


class TablePolicy:
    """A custom policy: uniform over two actions, with the values ``VALUES``."""

    def __init__(self):
        self.theta = np.zeros(1, dtype=np.float32)

    def forward(self, observations):
        outputs = np.zeros((len(observations), 3), dtype=np.float32)
        outputs[:, -1] = np.take(VALUES, observations[:, 0].astype(int))
        return outputs


class ConstantPolicy:
    """A custom policy: uniform over the actions, with a value of 4 for every state."""

    def __init__(self, actions):
        self.theta, self._actions = np.zeros(1, dtype=np.float32), actions

    def forward(self, observations):
        outputs = np.zeros((observations.shape[0], self._actions + 1), dtype=np.float32)
        outputs[:, -1] = 4
        return outputs


def config_of(env_id, *flags):
    coefficients = ("--gamma", GAMMA, "--gae-lambda", GAE_LAMBDA)
    return parse_train(["--env-id", env_id, *map(str, (*coefficients, *flags))])[0]


def advantages_of(trajectories, policy, config):
    """Return the advantages of each trajectory: a list of arrays."""
    batch = Batch(trajectories, policy)
    batch.estimate(config)
    np.testing.assert_allclose(batch.targets - batch.advantages, batch.values, atol=1e-5)
    return np.split(batch.advantages, np.cumsum([t.length for t in trajectories])[:-1])


def rollout_function(config, *names):
    """Return a function that plays one rollout of each env and returns the advantages."""
    policy = CustomPolicy(TablePolicy(), Categorical(2), 2, False, None, False)
    specs = [registry.make_spec(config_of(f"own_envs:{name}")) for name in names]
    envs = [Env(index, config, each) for index, each in enumerate(specs)]
    player = Player(envs, specs[0].codes, config, PhaseTimer())
    return lambda: advantages_of(player.play(policy.expand(), round_length(config, 1)), policy, config)


def assert_close(found, expected):
    assert len(found) == len(expected)
    for one, other in zip(found, expected):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_advantages_of_rollouts_of_five_steps():
    """Rollouts end within an episode, except the third of the second env and the fourth of the first."""
    play = rollout_function(config_of("own_envs:Truncating", "--num-steps", 5), "Truncating", "Terminating")
    assert_close(play(), ([*TRUNCATED, *CUT[1]], [*TERMINATED, *CUT[2]]))
    assert_close(play(), ([*TRUNCATED[1:], *CUT[2]], [*TERMINATED[2:], *TERMINATED, *CUT[1]]))
    assert_close(play(), ([*TRUNCATED[2:], *CUT[3]], [*TERMINATED[1:], *TERMINATED]))
    assert_close(play(), ([*TRUNCATED[3:], *TRUNCATED], [*TERMINATED, *CUT[2]]))


def test_advantages_of_whole_episodes():
    play = rollout_function(config_of("own_envs:Truncating", "--sync", "episode"), "Truncating", "Terminating")
    for _ in range(2):
        assert_close(play(), (TRUNCATED, TERMINATED))


@pytest.fixture(scope="module")
def pong():
    return registry.make_spec(config_of("ALE/Pong-v5"))


def play_pong(pong, *flags):
    """Play a rollout of Pong with a value of 4 for every state: (trajectory, advantages)."""
    config, actions = config_of("ALE/Pong-v5", *flags), len(pong.codes)
    inputs = pong.make_encoder(config).size
    policy = CustomPolicy(ConstantPolicy(actions), Categorical(actions), inputs, True, None, False)
    env = Env(0, config, pong)
    env.explores = False
    (trajectory,) = Player([env], pong.codes, config, PhaseTimer()).play(policy.expand(), round_length(config, 1))
    return trajectory, advantages_of([trajectory], policy, config)[0]


def test_max_frames_bootstraps(pong):
    """Two games truncated after 20 steps without reward, and half of a third: delta = 0 + 4 / 2 - 4 at each step."""
    trajectory, advantages = play_pong(pong, "--sync", "steps", "--num-steps", 50, "--max-frames", 80)
    assert trajectory.length == 50 and not trajectory.rewards.any() and len(trajectory.games) == 2
    steps_left = np.array([*range(20, 0, -1), *range(20, 0, -1), *range(10, 0, -1)])
    np.testing.assert_allclose(advantages, -2 * (1 - 0.25**steps_left) / (1 - 0.25), rtol=1e-6)


def test_end_of_a_game_does_not_bootstrap(pong, monkeypatch):
    monkeypatch.setattr(lengths, "LONGEST", 10_000)  # the whole game
    trajectory, advantages = play_pong(pong, "--sync", "episode")
    assert abs(trajectory.games[0][0]) > 10 and len(trajectory.games) == 1
    assert advantages[-1] == trajectory.rewards[-1] - 4
