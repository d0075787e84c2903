"""Environments of Gymnasium as games: what is seen, what is done, and whether a saved one goes on exactly."""

import json
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from pg_mpi.config.command_line import parse_train
from pg_mpi.config.errors import CheckpointError, RunError, UsageError
from pg_mpi.env import env_state, registry
from pg_mpi.env import gym_spec as ours
from pg_mpi.evaluate import RandomPolicy
from pg_mpi.run import factory

HERE = "own_envs"  # tests/own_envs.py


def config_of(env_id, *flags):
    return parse_train(["--env-id", env_id, *flags])[0]


def known(env_id, *flags):
    config = config_of(env_id, *flags)
    return registry.learn(config), config


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1", "Acrobot-v1", "MountainCar-v0", "FrozenLake-v1"])
def test_a_saved_game_goes_on_exactly(env_id):
    environment, config = known(env_id)
    assert environment.kept
    rng = np.random.default_rng(0)
    game, other = (environment.make_game(config, np.random.default_rng(seed)) for seed in (1, 2))
    actions = rng.standard_normal((400, 1)) if environment.gaussian else rng.choice(environment.codes, 400)
    for action in actions[:100]:
        if game.over():
            game.reset()
        game.step(action)
    other.step(actions[0])
    if game.over():
        game.reset()
    assert other.restore(game.state())
    for action in actions[100:]:
        assert (game.step(action), game.over(), game.truncated()) == (
            other.step(action),
            other.over(),
            other.truncated(),
        )
        np.testing.assert_array_equal(game.screen, other.screen)
        if game.over():
            break


def test_what_hides_its_state_starts_anew():
    environment, config = known(f"{HERE}:Hiding")
    assert not environment.kept
    assert any("restarts unfinished games" in line for line in environment.describe(config))
    game = environment.make_game(config, np.random.default_rng(1))
    assert game.state() == b"" and game.restore(b"") is False


@pytest.mark.parametrize(("name", "kept"), [("Late", True), ("Vast", False), ("Odd", True), ("Lost", False)])
def test_what_can_be_kept_is_found_by_trying(name, kept):
    """Not where it is large, nor where what cannot be saved breaks it; names of attributes mean nothing."""
    assert known(f"{HERE}:{name}")[0].kept == kept


def test_an_attribute_of_late_in_a_game_is_saved():
    """It is set in the fortieth step, after the trial has looked."""
    environment, config = known(f"{HERE}:Later")
    game, fresh = (environment.make_game(config, np.random.default_rng(seed)) for seed in (1, 2))
    for _ in range(45):
        game.step(1)
    assert environment.kept and fresh.restore(game.state())
    game.step(0), fresh.step(0)
    np.testing.assert_array_equal(game.screen, fresh.screen)
    assert game.screen[0] == 45


def test_what_its_own_state_raises_is_shown():
    with pytest.raises(ZeroDivisionError):
        known(f"{HERE}:Stateless")


def test_a_half_open_bound_is_a_bound():
    environment, config = known(f"{HERE}:HalfBound")
    game = environment.make_game(config, np.random.default_rng(0))
    game.step(np.array([-3.0, 0.25]))
    np.testing.assert_array_equal(game._env.taken, [0.0, 0.25])


def test_the_examples_own_kind_of_spaces():
    env = SimpleNamespace(
        observation_space=SimpleNamespace(n=4), action_space=SimpleNamespace(shape=(2,), low=-1.0, high=1.0)
    )
    found = ours.spaces_of(env, "mine")
    assert (found.states, found.low, found.high, found.dtype) == (4, (-1.0, -1.0), (1.0, 1.0), "<f4")


def test_a_state_outside_of_those_there_are_is_refused():
    environment, config = known("FrozenLake-v1")
    game = environment.make_game(config, np.random.default_rng(0))
    for outside in (-1, 16, 2.5, None):
        with pytest.raises(RunError, match=f"gave the observation {outside}, not one of its 16 states"):
            game._numbers(outside)


def test_a_box_is_flat_and_one_of_n_is_a_one_among_zeros():
    environment, config = known("FrozenLake-v1")
    game = environment.make_game(config, np.random.default_rng(0))
    np.testing.assert_array_equal(game.screen, np.eye(16)[0])
    environment, config = known(f"{HERE}:Square")
    game = environment.make_game(config, np.random.default_rng(0))
    assert environment.inputs(config) == 6 and game.screen.shape == (6,) and game.screen.dtype == np.float32
    np.testing.assert_array_equal(game.screen, [0, 1, 2, 3, 4, 5])


@pytest.mark.parametrize(
    ("squash", "given", "taken"),
    [
        ("clip", [0.5, 0.5], [1.0, 0.5]),
        ("clip", [-7.0, -7.0], [-2.0, -7.0]),
        ("tanh", [0.5, 0.5], [2 * np.tanh(0.5), 0.5]),
    ],
)
def test_actions_are_brought_between_the_bounds(squash, given, taken):
    """The first number is between -2 and 2, the second has no bounds."""
    environment, config = known(f"{HERE}:Square", "--squash", squash)
    game = environment.make_game(config, np.random.default_rng(0))
    game.step(np.array(given))
    np.testing.assert_allclose(game._env.taken, taken, rtol=1e-6)


def test_pendulum_is_told_what_the_policy_means():
    environment, config = known("Pendulum-v1")
    game, env = environment.make_game(config, np.random.default_rng(0)), gymnasium.make("Pendulum-v1")
    env.reset(seed=int(np.random.default_rng(0).integers(2**31)))
    observation, reward, *_ = env.step(np.array([1.0], np.float32))
    assert game.step(np.array([0.5])) == reward  # torques go from -2 to 2
    np.testing.assert_array_equal(game.screen, observation)


def test_truncation_is_no_end_of_the_rules():
    environment, config = known("Pendulum-v1")
    game = environment.make_game(config, np.random.default_rng(0))
    for _ in range(200):
        assert not game.over()
        game.step(np.zeros(1))
    assert game.over() and game.truncated()
    environment, config = known("CartPole-v1")
    game = environment.make_game(config, np.random.default_rng(0))
    while not game.over():
        game.step(0)
    assert not game.truncated(), "the pole fell"


@pytest.mark.parametrize(
    ("env_id", "says"),
    [
        ("CartPool-v1", "did you mean CartPole-v1?"),
        ("Pong-v5", "did you mean ALE/Pong-v5?"),
        ("CartPole-v7", "CartPole-v1"),
        (f"{HERE}:Tupled", "Tuple(Discrete(2), Discrete(3)): supported observations are Box and Discrete"),
        (f"{HERE}:Binary", "MultiBinary(5): supported observations are"),
        (f"{HERE}:Deciding", "MultiBinary(4): supported observations are"),
        (f"{HERE}:Whole", "supported actions are Discrete and a 1-D Box of floats"),
        (f"{HERE}:Texting", "supported observations are Box and Discrete; supported actions"),
        (f"{HERE}:Alone", "fewer than two actions"),
        (f"{HERE}:nothing", "unknown env"),
        (f"{HERE}:np", "must name a function or class, not module"),
        ("Ant-v3", "Ant-v3 cannot be created"),
        ("a:b:c", "a does not import"),
        ("no_such_module:Env", "no_such_module does not import: ModuleNotFoundError"),
        ("own_broken:Env", "own_broken does not import: ZeroDivisionError"),
    ],
)
def test_what_is_not_supported_is_refused(env_id, says, capsys):
    with pytest.raises(UsageError) as refused:
        known(env_id)
    assert says in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize("name", ["NanReward", "NanSeen", "Reshaped", "NoReward", "Ragged"])
def test_an_environment_that_goes_wrong_is_told_so(name):
    config = config_of(f"{HERE}:{name}")
    environment = ours.GymSpec(config.env_id, ours.spaces_of(ours.make(config.env_id), config.env_id), True)
    game = environment.make_game(config, np.random.default_rng(0))
    with pytest.raises(RunError, match=f"{HERE}:{name} gave"):
        for _ in range(20):
            game.step(environment.codes[0])


@pytest.mark.parametrize(("name", "says"), [("Four", "the step of own_envs:Four gave"), ("Bare", "the reset of")])
def test_an_environment_of_an_older_kind_is_told_so(name, says):
    config = config_of(f"{HERE}:{name}")
    environment = ours.GymSpec(config.env_id, ours.spaces_of(ours.make(config.env_id), config.env_id), True)
    with pytest.raises(RunError, match=says):
        environment.make_game(config, np.random.default_rng(0)).step(0)


def test_settings_of_atari_games_in_a_preset_mean_nothing_elsewhere(tmp_path):
    preset = tmp_path / "breakout.json"
    preset.write_text(json.dumps({"hidden": 32, "sticky": 0.5}))
    config = config_of("FrozenLake-v1", "--preset", str(preset))
    assert (config.hidden, config.sticky) == (32, 0.0)
    with pytest.raises(UsageError, match="--action-logits has no effect on ALE/Pong-v5 with a policy of your own"):
        config_of("ALE/Pong-v5", "--policy", "own_policies:Sparse", "--action-logits", "own")


def test_one_of_n_is_never_scaled():
    environment, config = known("FrozenLake-v1")
    policy = factory.make_policy(config, environment)
    np.testing.assert_array_equal(policy._stacked([np.eye(16, dtype=np.float32)[3]]), [np.eye(16)[3]])


@pytest.mark.parametrize(("squash", "bound"), [("clip", 0.99), ("tanh", np.arctanh(0.99))])
def test_random_actions_reach_the_bounds(squash, bound):
    environment, _ = known("Pendulum-v1")
    generators = [np.random.default_rng(seed) for seed in range(1000)]
    drawn = np.array([action for _, action, _ in RandomPolicy(environment, squash).sample(generators, generators)])
    assert drawn.max() > bound and drawn.min() < -bound


@pytest.mark.parametrize(
    "state",
    [
        b"{",
        b"[]",
        b"[1, 2, 3]",
        b"null",
        b'[{"__class__": 3}, {}, {}]',
        b'[{"env": 3}, {}, {}]',
        b'[{}, {}, {"step": 1}]',
    ],
)
def test_a_forged_state_is_refused(state):
    environment, config = known("CartPole-v1")
    with pytest.raises(CheckpointError, match="refused its saved state"):
        environment.make_game(config, np.random.default_rng(0)).restore(state)


def test_plain_data_comes_back_as_it_was():
    class Holder:
        def step(self):
            """As environments have it."""

    class Wrapper(Holder):
        pass

    holder, wrapper, rng = Holder(), Wrapper(), np.random.default_rng(3)
    rng.random(5)
    holder.things = [1, 2.5, None, True, "word", (np.float32(0.1), np.int64(7)), {"a": np.arange(6.0).reshape(2, 3)}]
    holder.np_random, holder.odd = rng, np.random.Generator(np.random.MT19937(1))
    holder.space = spaces.Discrete(3)
    wrapper.env, wrapper.count = holder, 12
    saved = env_state.pack(wrapper)
    json.loads(saved)
    expected = [holder.np_random.random(), holder.odd.random()]
    holder.things, wrapper.count, space = None, 0, holder.space
    env_state.unpack(wrapper, saved)
    assert [holder.np_random.random(), holder.odd.random()] == expected
    assert wrapper.count == 12 and holder.space is space
    *simple, pair, named = holder.things
    assert simple == [1, 2.5, None, True, "word"] and pair == (np.float32(0.1), 7) and type(pair[0]) is np.float32
    np.testing.assert_array_equal(named["a"], [[0, 1, 2], [3, 4, 5]])
