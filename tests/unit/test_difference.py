"""Karpathy's features against his formula on RGB screens, over whole games."""

import numpy as np
import pytest

from pg_mpi.env.atari import AtariGame
from pg_mpi.env.calibration import find_actions, find_scene
from pg_mpi.features.difference import DifferenceEncoder


@pytest.fixture(scope="module")
def scene():
    return find_scene("ALE/Pong-v5")[0]


def binarised(rgb):
    """Karpathy's 80 x 80 frame: 0 where the red channel is 0, 109 or 144, else 1; int (6400,)."""
    red = rgb[35:195, :, 0][::2, ::2]
    return ((red != 144) & (red != 109) & (red != 0)).astype(int).ravel()


def test_equals_karpathys_formula_over_whole_games(scene):
    rng = np.random.default_rng(11)
    game, encoder = AtariGame("ALE/Pong-v5", rng), DifferenceEncoder(scene)
    steps = 0
    for _ in range(2):
        observation, before = encoder.start(game.screen), binarised(game.rgb())
        assert len(observation) == 0
        while not game.over():
            game.step(game.actions[rng.integers(6)])
            observation, now = encoder.step(game.screen), binarised(game.rgb())
            difference = np.zeros(12800, dtype=int)
            difference[observation] = 1
            np.testing.assert_array_equal(difference[:6400] - difference[6400:], now - before)
            assert len(np.unique(observation)) == len(observation)
            before = now
            steps += 1
        game.reset()
    assert steps > 1500


def test_continues_from_its_state(scene):
    rng = np.random.default_rng(3)
    game, encoder, other = AtariGame("ALE/Pong-v5", rng), DifferenceEncoder(scene), DifferenceEncoder(scene)
    observation = encoder.start(game.screen)
    for step in range(300):
        if step % 50 == 0:
            np.testing.assert_array_equal(other.restore(encoder.state()), observation)
        else:
            np.testing.assert_array_equal(other.step(game.screen), observation)
        game.step(game.actions[rng.integers(6)])
        observation = encoder.step(game.screen)


def test_distinct_actions():
    assert find_actions("ALE/Pong-v5") == [0, 3, 4]  # NOOP, RIGHT (up), LEFT (down): FIRE hardly matters
    assert find_actions("ALE/Breakout-v5") == [0, 1, 3, 4]  # FIRE serves the ball
