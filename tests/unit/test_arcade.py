"""Atari games other than Pong: colours, lives, rewards, versions and settings."""

import dataclasses

import numpy as np
import pytest

from pg_mpi import build
from pg_mpi.batch import learned
from pg_mpi.config import parse_train
from pg_mpi.errors import CheckpointError, UsageError
from pg_mpi.game import arcade, choice
from pg_mpi.game.atari import FOR_TWO, AtariGame, atari_ids
from pg_mpi.game.eye import PIXELS, Eye, crop
from pg_mpi.game.features import FrameEncoder
from pg_mpi.game.survey import MOST_PLANES, colour_planes, find_scene
from pg_mpi.record.phases import Phases
from pg_mpi.rollout import Env, Player
from pg_mpi.settings import TrainConfig
from pg_mpi.trajectory import Trajectory


def config_of(name, *flags):
    return parse_train(["--env-id", f"ALE/{name}-v5", *map(str, flags)])[0]


# -- colours --------------------------------------------------------------------------------------------


def test_one_plane_where_places_tell_colours():
    counts = np.zeros((10, 256), dtype=np.int64)
    counts[:5, 7] = counts[5:, 9] = 100  # two colours, each in places of its own
    assert not colour_planes(counts).any()
    assert not colour_planes(np.zeros((10, 256), dtype=np.int64)).any(), "nothing was ever active"


def test_commonest_colours_have_planes_of_their_own():
    counts = np.zeros((10, 256), dtype=np.int64)
    for colour, times in ((3, 50), (200, 40), (17, 30), (5, 20), (90, 10)):
        counts[:, colour] = times
    planes = colour_planes(counts)
    assert [planes[colour] for colour in (3, 200, 17, 5, 90, 0)] == [0, 1, 2, 3, 3, 3]
    assert planes.max() == MOST_PLANES - 1


def test_two_colours_in_the_same_places_are_two_planes():
    counts = np.zeros((10, 256), dtype=np.int64)
    counts[:, 4], counts[:, 8] = 60, 50
    planes = colour_planes(counts)
    assert planes[4] == 0 and planes[8] == 1 and planes.max() == 2  # the rest, which nobody has seen yet


def test_pong_needs_no_colours_and_boxing_does():
    backgrounds, planes, active = find_scene("ALE/Pong-v5")
    assert not planes.any() and 0.001 < active < 0.01
    _, planes, active = find_scene("ALE/Boxing-v5")
    assert planes.max() > 0 and active < 0.1


@pytest.mark.parametrize("kind", ["pair", "difference", "motion", "course", "edge"])
def test_coloured_features_are_those_of_each_plane_by_itself(kind):
    """Against masks of whole screens, plane by plane; what moves is found whatever its colour."""
    backgrounds, planes, _ = find_scene("ALE/Boxing-v5")
    coloured, plain = (FrameEncoder(kind, Eye(backgrounds, given)) for given in (planes, None))
    rng, colours = np.random.default_rng(3), int(planes.max()) + 1
    game = AtariGame("ALE/Boxing-v5", rng)

    def masks():
        colour = crop(game.screen).ravel()
        active = ~(colour == backgrounds.reshape(-1, PIXELS)).any(axis=0)
        return np.concatenate([active & (planes[colour] == plane) for plane in range(colours)])

    observations, before, lone = (coloured.start(game.screen), plain.start(game.screen)), masks(), 0
    for _ in range(120):
        game.act(game.actions[rng.integers(18)])
        observations, now = (coloured.step(game.screen), plain.step(game.screen)), masks()
        size = colours * PIXELS
        seen = np.zeros(2 * size, dtype=bool)
        pixels = observations[0][observations[0] < 2 * size]
        seen[pixels] = True
        if kind == "pair":
            np.testing.assert_array_equal(seen, np.concatenate((now, before)))
        if kind == "difference":
            np.testing.assert_array_equal(seen, np.concatenate((now & ~before, before & ~now)))
        if kind == "edge" and not seen[size:].any():  # it is no crowd
            lone += 1
            fields = np.pad(now.reshape(-1, 80), ((0, 0), (1, 0)))
            np.testing.assert_array_equal(seen[:size], (fields[:, 1:] & ~fields[:, :-1]).ravel())
        elif kind in ("motion", "course"):
            np.testing.assert_array_equal(seen[:size], now)
        if kind in ("motion", "course", "edge"):
            moved = observations[1][observations[1] >= 2 * PIXELS]
            np.testing.assert_array_equal(observations[0][len(pixels) :] - 2 * size, moved - 2 * PIXELS)
        before = now
    assert kind != "edge" or lone > 30
    other = FrameEncoder(kind, Eye(backgrounds, planes))
    np.testing.assert_array_equal(other.restore(coloured.state()), observations[0])
    game.act(0)
    np.testing.assert_array_equal(other.step(game.screen), coloured.step(game.screen))


@pytest.mark.parametrize("features", ["edge", "motion", "pair", "difference"])
def test_the_policy_has_a_row_for_every_input(features):
    config = config_of("Boxing", "--features", features, "--hidden", 2)
    planes = np.zeros(256, dtype=np.uint8)
    planes[:3] = 0, 1, 2
    known = arcade.Arcade(np.zeros((1, 80, 80), np.uint8), planes, [0, 2, 3])
    policy = build.make_policy(config, known)
    assert policy.tie.shape[0] == known.inputs(config)
    used = np.unique(policy.tie.indices)
    assert len(used) == policy.rows, "no row without an input"
    assert (np.diff(policy.tie.indptr) > 0).all(), "no input without a row"
    pixels = policy.tie[: 2 * 3 * 6400].data
    assert set(np.abs(pixels)) == {2 if features == "edge" else 1}


# -- games ----------------------------------------------------------------------------------------------


def test_games_for_two_are_refused_before_the_emulator_sees_them():
    assert not {f"ALE/{name.title().replace('_', '')}-v5" for name in FOR_TWO} & set(atari_ids())
    with pytest.raises(UsageError, match="ALE/Combat-v5 is a game for two"):
        choice.check(config_of("Combat"))


@pytest.mark.parametrize("name", ["Qbert", "Tetris", "Pong"])
@pytest.mark.parametrize("steps", [0, 150], ids=["after a reset", "in mid-game"])
def test_a_fresh_emulator_goes_on_exactly(name, steps):
    """Q*bert and Tetris did not: what they do depends on more than their saved state."""
    rng = np.random.default_rng(0)
    one, other = (AtariGame(f"ALE/{name}-v5", np.random.default_rng(1)) for _ in range(2))
    for action in rng.choice(one.actions, 60):
        one.act(action)
    one.reset()
    for action in rng.choice(one.actions, steps):
        one.act(action)
    other.restore(one.state())
    for game in (one, other):
        game.draw_from(np.random.default_rng(2))
    for action in rng.choice(one.actions, 150):
        assert one.act(action) == other.act(action) and one.over() == other.over()
        np.testing.assert_array_equal(one.screen, other.screen)
        if one.over():
            one.reset(), other.reset()


def test_modes_and_difficulties_are_other_games():
    def played(mode, difficulty):
        game = AtariGame("ALE/Breakout-v5", np.random.default_rng(0), mode=mode, difficulty=difficulty)
        rng = np.random.default_rng(1)
        for action in rng.choice(game.actions, 100):
            game.act(action)
        assert not game.over()
        return game

    usual, same, other = played(None, None), played(0, 0), played(8, 1)
    np.testing.assert_array_equal(usual.screen, same.screen)
    assert not np.array_equal(usual.screen, other.screen)
    again = AtariGame("ALE/Breakout-v5", np.random.default_rng(5), mode=8, difficulty=1)
    again.restore(other.state())
    for game in (other, again):
        game.draw_from(np.random.default_rng(2))
    for _ in range(20):
        other.act(1), again.act(1)
        np.testing.assert_array_equal(other.screen, again.screen)


def test_a_lost_life_ends_a_return_but_not_the_game():
    ends = {}
    for flags in ((), ("--life-loss",)):
        config = config_of("Breakout", "--sync", "steps", "--num-steps", 600, "--hidden", 2, *flags)
        known = arcade.Arcade(np.zeros((1, 80, 80), np.uint8), np.zeros(256, np.uint8), [0, 1, 3, 4])
        env = Env(0, config, known)
        (lived,) = Player([env], known.codes, config, Phases()).play(build.make_policy(config, known).expand())
        ends[flags] = np.flatnonzero(lived.ends), [steps for _, steps in lived.games]
    games, with_lives = ends[()], ends[("--life-loss",)]
    assert games[1] and np.array_equal(games[0], np.cumsum(games[1]) - 1), "ends are the games' alone"
    assert with_lives[1] == games[1], "the games are the same"
    assert len(with_lives[0]) >= 5 * len(games[1]) and set(games[0]) <= set(with_lives[0]), "five lives each"


@pytest.mark.parametrize("preset", ["default", "karpathy"])
def test_a_reward_ends_a_return_of_reinforce_alone(preset):
    config = config_of("Pong", "--preset", preset, "--max-frames", 1200, "--hidden", 2)
    known = arcade.Arcade(np.zeros((1, 80, 80), np.uint8), np.zeros(256, np.uint8), [3, 4])
    (lived,) = Player([Env(0, config, known)], known.codes, config, Phases()).play(
        build.make_policy(config, known).expand()
    )
    rewarded = np.flatnonzero(lived.rewards).tolist()
    assert rewarded and lived.length == 300 and rewarded[-1] < 299
    assert np.flatnonzero(lived.ends).tolist() == [*(rewarded if preset == "karpathy" else []), 299]


# -- settings -------------------------------------------------------------------------------------------


def test_rewards_are_learned_from_by_sign_or_as_they_are():
    lived = Trajectory()
    for reward in (0.0, 7.0, -3.0, 0.5):
        lived.record(np.array([1]), 0, 0.0, 0.0, reward, False)
    lived.foresee(0.25)
    assert learned(lived, "sign").tolist() == [0, 1, -1, 1.25]
    assert learned(lived, "raw").tolist() == [0, 7, -3, 0.75]
    assert lived.rewards.tolist() == [0, 7, -3, 0.5], "the record of the game is untouched"


def test_all_games_have_the_same_defaults():
    known = [dataclasses.replace(config_of(name), env_id="any") for name in ("Pong", "Breakout", "Freeway")]
    assert known[0] == known[1] == known[2] == TrainConfig(env_id="any")
    assert config_of("Breakout", "--gamma", 0.5).gamma == 0.5
    karpathy = config_of("Breakout", "--preset", "karpathy")
    assert (karpathy.features, karpathy.sync, karpathy.envs_per_rank) == ("difference", "episode", 1)
    assert parse_train(["--env-id", "CartPole-v1"])[0].sync == "steps"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--env-id", "CartPole-v1", "--sticky", "0.1"], "--sticky means nothing for CartPole-v1: leave it out"),
        (["--squash", "tanh"], "--squash means nothing for ALE/Pong-v5: leave it out"),
        (["--env-id", "CartPole-v1", "--preset", "karpathy"], "--method reinforce is for Atari games"),
        (["--policy", "a:B", "--preset", "karpathy"], "and our own policy of them: use clipped"),
        (["--env-id", "CartPole-v1", "--replay"], "--replay remembers active pixels"),
    ],
)
def test_what_does_not_go_together_is_refused(words, says):
    with pytest.raises(UsageError) as refused:
        parse_train(words)[0].check(2)
    assert says in str(refused.value)


def test_a_difficulty_that_a_game_lacks_is_refused():
    with pytest.raises(UsageError, match="ALE/Pong-v5 has no --difficulty 9: give one of 0, 1, 2, 3"):
        AtariGame("ALE/Pong-v5", np.random.default_rng(0), difficulty=9)


def test_a_crowded_screen_is_said():
    known = arcade.Arcade(np.zeros((1, 80, 80), np.uint8), np.zeros(256, np.uint8), [0, 1], active=0.5)
    assert any("sparse features hardly apply" in line for line in known.says(config_of("Breakout")))
    calm = arcade.Arcade(np.zeros((1, 80, 80), np.uint8), np.zeros(256, np.uint8), [0, 1], active=0.02)
    assert len(calm.says(config_of("Breakout"))) == 2


def test_a_refused_state_says_so():
    with pytest.raises(CheckpointError, match="refused its saved state"):
        AtariGame("ALE/Pong-v5", np.random.default_rng(0)).restore(b"\x00" + b"nothing")
