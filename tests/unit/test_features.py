"""Features against Karpathy's formula on RGB screens, over whole games, and on games nobody tuned them for."""

import numpy as np
import pytest

from pg_mpi.game.atari import AtariGame
from pg_mpi.game.eye import PIXELS, Eye
from pg_mpi.game.features import INPUTS, FrameEncoder
from pg_mpi.game.survey import find_actions, find_scene


@pytest.fixture(scope="module")
def backgrounds():
    return find_scene("ALE/Pong-v5")[0]


def binarised(rgb):
    """Karpathy's 80 x 80 frame: 0 where the red channel is 0, 109 or 144, else 1; float (6400,)."""
    red = rgb[35:195, :, 0][::2, ::2]
    return ((red != 144) & (red != 109) & (red != 0)).astype(float).ravel()


def test_pong_has_two_backgrounds(backgrounds):
    assert [np.unique(plane).tolist() for plane in backgrounds] == [[34], [228]]


@pytest.mark.parametrize("kind", ["pair", "difference"])
def test_pong_equals_karpathys_formula_over_whole_games(backgrounds, kind):
    rng = np.random.default_rng(11)
    game = AtariGame("ALE/Pong-v5", rng)
    encoder = FrameEncoder(kind, Eye(backgrounds))
    steps = games = 0
    while games < 2:
        observation, before = encoder.start(game.screen), binarised(game.rgb())
        expected = np.concatenate((before, before)) if kind == "pair" else np.zeros(INPUTS)
        while True:
            seen = np.zeros(INPUTS)
            seen[observation] = 1
            np.testing.assert_array_equal(seen, expected)
            assert len(np.unique(observation)) == len(observation)
            if game.over():
                break
            game.act(game.actions[rng.integers(6)])
            observation, now = encoder.step(game.screen), binarised(game.rgb())
            if kind == "pair":
                expected = np.concatenate((now, before))
            else:
                expected = np.concatenate((now - before > 0, now - before < 0)).astype(float)
            before = now
            steps += 1
        games += 1
        game.reset()
    assert steps > 1500


@pytest.mark.parametrize("kind", ["pair", "difference"])
def test_encoder_goes_on_from_its_state(backgrounds, kind):
    rng = np.random.default_rng(3)
    game = AtariGame("ALE/Pong-v5", rng)
    encoder, other = FrameEncoder(kind, Eye(backgrounds)), FrameEncoder(kind, Eye(backgrounds))
    observation = encoder.start(game.screen)
    for step in range(300):
        if step % 50 == 0:
            np.testing.assert_array_equal(other.restore(encoder.state()), observation)
        else:
            np.testing.assert_array_equal(other.step(game.screen), observation)
        game.act(game.actions[rng.integers(6)])
        observation = encoder.step(game.screen)


@pytest.mark.parametrize("name", ["Breakout", "SpaceInvaders", "Freeway"])
def test_other_games_are_sparse_and_alive(name, record_property, capsys):
    env_id = f"ALE/{name}-v5"
    encoder = FrameEncoder("pair", Eye(find_scene(env_id)[0]))
    rng = np.random.default_rng(1)
    game = AtariGame(env_id, rng)
    counts, changes = [], 0
    observation = encoder.start(game.screen)
    for _ in range(1000):
        if game.over():
            game.reset()
            encoder.start(game.screen)
        game.act(game.actions[rng.integers(len(game.actions))])
        before, observation = observation, encoder.step(game.screen)
        counts.append(len(observation))
        changes += not np.array_equal(before, observation)
    share = np.mean(counts) / INPUTS
    with capsys.disabled():
        print(f"\n{env_id}: {share:.2%} of the inputs are active, {len(find_actions(env_id))} distinct actions")
    assert 0.001 < share < 0.10
    assert changes > 900, "what moves must be seen"


def test_distinct_actions():
    assert find_actions("ALE/Pong-v5") == [0, 3, 4]  # NOOP, RIGHT (up), LEFT (down): FIRE hardly matters
    assert find_actions("ALE/Breakout-v5") == [0, 1, 3, 4]  # FIRE serves the ball
    assert PIXELS == 6400
