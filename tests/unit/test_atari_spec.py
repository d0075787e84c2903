"""Atari games other than Pong: colours, rewards, versions and settings."""

import dataclasses

import numpy as np
import pytest

from pg_mpi.config.command_line import parse_train
from pg_mpi.config.errors import CheckpointError, UsageError
from pg_mpi.config.settings import TrainConfig
from pg_mpi.env import atari_spec, registry
from pg_mpi.env.atari import FOR_TWO, AtariGame, atari_ids
from pg_mpi.env.calibration import MOST_CLASSES, colour_classes, find_scene
from pg_mpi.features.foreground import Scene
from pg_mpi.features.registry import make_encoder
from pg_mpi.learning.batch import learned
from pg_mpi.learning.phases import PhaseTimer
from pg_mpi.learning.rollout import Env, Player
from pg_mpi.learning.round_length import round_length
from pg_mpi.learning.trajectory import Trajectory
from pg_mpi.run import factory
from pg_mpi.run.saved_run import checking

SCENE = Scene(np.zeros((1, 210, 160), np.uint8), np.zeros(256, np.uint8))


def config_of(name, *flags):
    return parse_train(["--env-id", f"ALE/{name}-v5", *map(str, flags)])[0]


# -- colours --------------------------------------------------------------------------------------------


def test_colours_in_separate_places_share_one_class():
    counts = np.zeros((10, 256), dtype=np.uint16)
    counts[:5, 7] = counts[5:, 9] = 100  # two colours, each in separate places
    assert not colour_classes(counts).any()
    assert not colour_classes(np.zeros((10, 256), dtype=np.uint16)).any(), "an empty foreground has several classes"


def test_most_frequent_colours_have_separate_classes():
    counts = np.zeros((10, 256), dtype=np.uint16)
    for colour, times in ((3, 50), (200, 40), (17, 30), (5, 20), (90, 10)):
        counts[:, colour] = times
    classes = colour_classes(counts)
    assert [classes[colour] for colour in (3, 200, 17, 5, 90, 0)] == [0, 1, 2, 3, 3, 3]
    assert classes.max() == MOST_CLASSES - 1


def test_colours_in_the_same_places_have_separate_classes():
    counts = np.zeros((10, 256), dtype=np.uint16)
    counts[:, 4], counts[:, 8] = 60, 50
    classes = colour_classes(counts)
    assert classes[4] == 0 and classes[8] == 1 and classes.max() == 2  # class 2: all other colours


def test_pong_has_one_colour_class_and_boxing_several():
    scene, active = find_scene("ALE/Pong-v5")
    assert scene.backgrounds.shape == (2, 210, 160) and np.unique(scene.backgrounds[1]).tolist() == [228]
    assert scene.colours == 1 and 0.001 < active < 0.01
    scene, active = find_scene("ALE/Boxing-v5")
    assert scene.colours > 1 and active < 0.1
    assert scene.classes[214] != scene.classes[0], "the white and the black boxer share a class"


@pytest.mark.parametrize("name", ["Breakout", "SpaceInvaders", "Freeway", "Seaquest"])
def test_observations_of_other_games_are_sparse_and_change(name):
    env_id, rng = f"ALE/{name}-v5", np.random.default_rng(1)
    spec = atari_spec.make_spec(config_of(name))
    game, encoder = AtariGame(env_id, rng), spec.make_encoder(config_of(name))
    counts, changes, observation = [], 0, encoder.start(game.screen)
    for _ in range(500):
        if game.over():
            game.reset()
            encoder.start(game.screen)
        game.step(game.actions[rng.integers(len(game.actions))])
        before, observation = observation, encoder.step(game.screen)
        counts.append(len(observation))
        changes += not np.array_equal(before, observation)
    assert 10 < np.mean(counts) < 0.01 * encoder.size
    assert changes > 400, "observations rarely change"


# -- games ----------------------------------------------------------------------------------------------


def test_two_player_games_are_refused():
    assert not {f"ALE/{name.title().replace('_', '')}-v5" for name in FOR_TWO} & set(atari_ids())
    with pytest.raises(UsageError, match="ALE/Combat-v5 is a two-player game"):
        registry.check(config_of("Combat"))


@pytest.mark.parametrize("name", ["Qbert", "Tetris", "Pong"])
@pytest.mark.parametrize("steps", [0, 150], ids=["after a reset", "mid-game"])
def test_restored_emulator_continues_exactly(name, steps):
    """Q*bert and Tetris depend on more than the emulator's saved state."""
    rng = np.random.default_rng(0)
    one, other = (AtariGame(f"ALE/{name}-v5", np.random.default_rng(1)) for _ in range(2))
    for action in rng.choice(one.actions, 60):
        one.step(action)
    one.reset()
    for action in rng.choice(one.actions, steps):
        one.step(action)
    other.restore(one.state())
    for game in (one, other):
        game.draw_from(np.random.default_rng(2))
    for action in rng.choice(one.actions, 150):
        assert one.step(action) == other.step(action) and one.over() == other.over()
        np.testing.assert_array_equal(one.screen, other.screen)
        if one.over():
            one.reset(), other.reset()


def test_modes_and_difficulties_change_the_game():
    def played(mode, difficulty):
        game = AtariGame("ALE/Breakout-v5", np.random.default_rng(0), mode=mode, difficulty=difficulty)
        rng = np.random.default_rng(1)
        for action in rng.choice(game.actions, 100):
            game.step(action)
        assert not game.over()
        return game

    default, same, other = played(None, None), played(0, 0), played(8, 1)
    np.testing.assert_array_equal(default.screen, same.screen)
    assert not np.array_equal(default.screen, other.screen)
    again = AtariGame("ALE/Breakout-v5", np.random.default_rng(5), mode=8, difficulty=1)
    again.restore(other.state())
    for game in (other, again):
        game.draw_from(np.random.default_rng(2))
    for _ in range(20):
        other.step(1), again.step(1)
        np.testing.assert_array_equal(other.screen, again.screen)


@pytest.mark.parametrize("preset", ["default", "karpathy"])
def test_reward_ends_a_return_only_with_reinforce(preset):
    config = config_of("Pong", "--preset", preset, "--max-frames", 1200, "--hidden", 2)
    spec = atari_spec.AtariSpec(SCENE, [3, 4])
    (trajectory,) = Player([Env(0, config, spec)], spec.codes, config, PhaseTimer()).play(
        factory.make_policy(config, spec).expand(), round_length(config, 1)
    )
    rewarded = np.flatnonzero(trajectory.rewards).tolist()
    assert rewarded and trajectory.length == 300 and rewarded[-1] < 299
    assert np.flatnonzero(trajectory.ends).tolist() == [*(rewarded if preset == "karpathy" else []), 299]


# -- settings -------------------------------------------------------------------------------------------


def test_learned_rewards_are_signs_or_raw():
    trajectory = Trajectory()
    for reward in (0.0, 7.0, -3.0, 0.5):
        trajectory.record(np.array([1]), 0, 0.0, 0.0, reward, False)
    trajectory.bootstrap(0.25)
    assert learned(trajectory, "sign").tolist() == [0, 1, -1, 1.25]
    assert learned(trajectory, "raw").tolist() == [0, 7, -3, 0.75]
    assert trajectory.rewards.tolist() == [0, 7, -3, 0.5], "the recorded rewards change"


def test_all_games_have_the_same_defaults():
    configs = [dataclasses.replace(config_of(name), env_id="any") for name in ("Pong", "Breakout", "Freeway")]
    assert configs[0] == configs[1] == configs[2] == TrainConfig(env_id="any")
    assert config_of("Breakout", "--gamma", 0.5).gamma == 0.5
    karpathy = config_of("Pong", "--preset", "karpathy")
    assert (karpathy.features, karpathy.sync, karpathy.envs_per_rank) == ("difference", "episode", 1)
    assert parse_train(["--env-id", "CartPole-v1"])[0].sync == "steps"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--env-id", "CartPole-v1", "--sticky", "0.1"], "--sticky has no effect on CartPole-v1: leave it out"),
        (["--squash", "tanh"], "--squash has no effect on ALE/Pong-v5: leave it out"),
        (["--env-id", "CartPole-v1", "--method", "reinforce"], "--method reinforce needs an Atari game"),
        (["--policy", "a:B", "--preset", "karpathy"], "and the built-in policy: use --method clipped"),
        (["--env-id", "CartPole-v1", "--replay"], "--replay needs an Atari game"),
        (["--env-id", "ALE/Breakout-v5", "--preset", "pong"], "pong is made for ALE/Pong-v5, not for ALE/Breakout-v5:"),
        (["--num-steps", "64"], "--num-steps has no effect without --sync steps: leave it out"),
        (["--preset", "fast", "--games-per-update", "2"], "--games-per-update has no effect without --sync episode:"),
        (["--preset", "karpathy", "--ent-coef", "0.1"], "--ent-coef has no effect without --method clipped: leave it"),
        (["--min-ranks", "2"], "--min-ranks has no effect without --elastic: leave it out"),
    ],
)
def test_incompatible_settings_are_refused(args, message):
    with pytest.raises(UsageError) as refused:
        parse_train(args)[0].check(2)
    assert message in str(refused.value)


def test_unknown_difficulty_is_refused():
    with pytest.raises(UsageError, match="ALE/Pong-v5 has no --difficulty 9: give one of 0, 1, 2, 3"):
        AtariGame("ALE/Pong-v5", np.random.default_rng(0), difficulty=9)


def test_crowded_screen_is_reported():
    spec = atari_spec.AtariSpec(SCENE, [0, 1], active=0.5)
    assert any("sparse features hardly apply" in line for line in spec.describe(config_of("Breakout")))
    sparse = atari_spec.AtariSpec(SCENE, [0, 1], active=0.02)
    assert len(sparse.describe(config_of("Breakout"))) == 2


def test_malformed_emulator_state_is_refused():
    with pytest.raises(CheckpointError, match="refused its saved state: resume with the version of ale-py"):
        AtariGame("ALE/Pong-v5", np.random.default_rng(0)).restore(b"\x00" + b"nothing")


def test_features_that_remember_a_screen_are_accepted_although_games_end_in_the_trial():
    config = config_of("Pong", "--features", "own_features:Rows", "--max-frames", 100)
    registry.make_spec(config).try_out(config)


def test_features_that_cannot_be_created_are_not_taken_for_a_damaged_checkpoint(capsys):
    with (
        pytest.raises(UsageError, match="--features own_features:NoTable cannot be used: ValueError: no table"),
        checking(),
    ):
        make_encoder("own_features:NoTable", SCENE)
    assert "Traceback" in capsys.readouterr().err
