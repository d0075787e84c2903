"""The difference features follow Karpathy's formula on RGB screens, over whole games."""

import numpy as np
import pytest

from pg_mpi.env.atari import AtariGame
from pg_mpi.env.calibration import find_scene
from pg_mpi.features.difference import DifferenceEncoder


@pytest.fixture(scope="module")
def scene():
    return find_scene("ALE/Pong-v5")[0]


def binarised(rgb):
    """Karpathy's 80 x 80 frame: 0 where the red channel is 0, 109 or 144, else 1; int (6400,)."""
    red = rgb[35:195, :, 0][::2, ::2]
    return ((red != 144) & (red != 109) & (red != 0)).astype(int).ravel()


def test_difference_encoder_equals_karpathys_formula(scene):
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


def test_restored_encoder_gives_the_same_observations(scene):
    rng = np.random.default_rng(3)
    game, encoder, restored = AtariGame("ALE/Pong-v5", rng), DifferenceEncoder(scene), DifferenceEncoder(scene)
    observation = encoder.start(game.screen)
    for step in range(300):
        if step % 50 == 0:
            np.testing.assert_array_equal(restored.restore(encoder.state()), observation)
        else:
            np.testing.assert_array_equal(restored.step(game.screen), observation)
        game.step(game.actions[rng.integers(6)])
        observation = encoder.step(game.screen)
