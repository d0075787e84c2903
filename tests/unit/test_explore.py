"""Exploration: a game after one without reward has a random preference for actions."""

import json
import math

import numpy as np
import pytest

from pg_mpi.config.command_line import parse_train
from pg_mpi.env import atari_spec
from pg_mpi.features.foreground import Scene
from pg_mpi.learning.phases import PhaseTimer
from pg_mpi.learning.rollout import Env, Player
from pg_mpi.learning.round_length import RoundLength
from pg_mpi.policy.network import SparseNetwork
from pg_mpi.run import factory

LENGTH = RoundLength(1024, 1)
SCENE = Scene(np.zeros((1, 210, 160), np.uint8), np.zeros(256, np.uint8))
FREEWAY = atari_spec.AtariSpec(SCENE, [0, 2, 5])


def config_of(name, *flags):
    short = ("--max-frames", 80, "--hidden", 2)
    return parse_train(["--env-id", f"ALE/{name}-v5", *map(str, (*short, *flags))])[0]


def test_preference_is_added_to_the_logits_and_log_probs():
    network = SparseNetwork(np.array([[0.5], [1.0]]), np.zeros(1))
    network.load(np.array([[1.0, 2.0, -1.0, 7.0]]), np.zeros(1), np.zeros(4))
    preferences, observations = ([0.0, -3.0, 2.0], None), [np.array([0]), np.array([1])]
    logits = np.array([[0.5, 1.0, -0.5], [1.0, 2.0, -1.0]]) + [preferences[0], [0.0] * 3]
    log_pi = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    counts = np.zeros((2, 3))
    for chance in range(4000):
        drawn = network.sample(observations, [np.random.default_rng([chance, each]) for each in range(2)], preferences)
        for row, (value, action, log_prob) in enumerate(drawn):
            counts[row, action] += 1
            assert value == (3.5, 7.0)[row] and log_prob == pytest.approx(log_pi[row, action])
    np.testing.assert_allclose(counts / 4000, np.exp(log_pi), atol=0.03)


def test_game_after_one_without_reward_has_a_preference():
    """20 steps of Freeway give no reward. A preference is constant within a game and differs between games."""
    config = config_of("Freeway")
    env = Env(0, config, FREEWAY)
    player = Player([env], FREEWAY.codes, config, PhaseTimer())
    network = factory.make_policy(config, FREEWAY).expand()
    found = []
    while len(found) < 5:
        found.append((env.steps, env.preference))
        player.play(network, LENGTH) if len(found) < 3 else player._step([env], network)
    assert found[0] == (0, None), "the first game has a preference"
    assert found[1][1] != found[2][1] and len(found[1][1]) == 3, "two games have the same preference"
    assert found[3][1] == found[4][1] and found[4][0] == found[3][0] + 1, "the preference changes within a game"
    env.paid = True
    env.begin()
    assert env.preference is None


def test_preference_of_a_replaced_emulator_is_used():
    """The emulator fails in a game without reward. The next action has the new game's preference."""
    config = config_of("Freeway")
    env = Env(0, config, FREEWAY)
    player = Player([env], FREEWAY.codes, config, PhaseTimer())
    network = factory.make_policy(config, FREEWAY).expand()
    step = env.game.step

    def failing(code):
        if env.steps == 3:
            raise RuntimeError("injected")
        return step(code)

    env.game.step = failing
    env.begin()
    env.preference = None
    drawn = []
    network.sample = lambda seen, rngs, preferences: drawn.append(preferences[0]) or [(0.0, 1, 0.0)]
    player.play(network, RoundLength(6, np.inf))
    assert env.trajectory.errors == 1
    assert drawn[:4] == [None] * 4 and drawn[4] == drawn[5] == env.preference and len(env.preference) == 3


def test_game_after_a_rewarded_one_has_no_preference():
    config = config_of("Pong", "--max-frames", 1200, "--sync", "steps", "--num-steps", 299)
    pong = atari_spec.make_spec(config)
    env = Env(0, config, pong)
    (trajectory,) = Player([env], pong.codes, config, PhaseTimer()).play(
        factory.make_policy(config, pong).expand(), RoundLength(299, math.inf)
    )
    assert trajectory.rewards.any() and env.paid
    env.begin()
    assert env.preference is None and not env.paid


def test_preference_is_restored_from_a_checkpoint():
    config = config_of("Freeway")
    env, restored = Env(0, config, FREEWAY), Env(0, config, FREEWAY)
    network = factory.make_policy(config, FREEWAY).expand()
    Player([env], FREEWAY.codes, config, PhaseTimer()).play(network, LENGTH)
    arrays, facts = env.state()
    restored.restore(arrays, json.loads(json.dumps(facts)))
    assert restored.preference == env.preference and env.preference is not None
    both = [Player([each], FREEWAY.codes, config, PhaseTimer()).play(network, LENGTH)[0] for each in (env, restored)]
    np.testing.assert_array_equal(both[0].actions, both[1].actions)
    np.testing.assert_array_equal(both[0].log_probs, both[1].log_probs)
    for malformed in ([1.0], [0.0, 1.0, float("nan")], ["a", "b", "c"]):
        with pytest.raises(ValueError, match="malformed preference|could not convert"):
            restored.restore(arrays, facts | {"preference": malformed})


def test_there_are_no_preferences_with_reinforce():
    assert Env(0, config_of("Freeway"), FREEWAY).explores
    assert not Env(0, config_of("Freeway", "--method", "reinforce"), FREEWAY).explores
