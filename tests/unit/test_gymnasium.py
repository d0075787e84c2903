"""Gymnasium environments: observations, actions, errors, and exact restoring of saved states."""

import json
from types import SimpleNamespace

import gymnasium
import numpy as np
import own_envs
import pytest
from gymnasium import spaces

from pg_mpi.config.command_line import parse_train
from pg_mpi.config.errors import CheckpointError, RunError, UsageError
from pg_mpi.env import env_state, gym_spec, registry
from pg_mpi.learning.rollout import Env
from pg_mpi.run import factory
from pg_mpi.run.trained_policy import RandomPolicy

MODULE = "own_envs"  # tests/own_envs.py


def config_of(env_id, *flags):
    return parse_train(["--env-id", env_id, *flags])[0]


def spec_of(env_id, *flags):
    config = config_of(env_id, *flags)
    return registry.make_spec(config), config


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1", "Acrobot-v1", "MountainCar-v0", "FrozenLake-v1"])
def test_restored_environment_continues_exactly(env_id):
    spec, config = spec_of(env_id)
    assert spec.kept
    rng = np.random.default_rng(0)
    game, restored = (spec.make_game(config, np.random.default_rng(seed)) for seed in (1, 2))
    actions = rng.standard_normal((400, 1)) if spec.gaussian else rng.choice(spec.codes, 400)
    for action in actions[:100]:
        if game.over():
            game.reset()
        game.step(action)
    restored.step(actions[0])
    if game.over():
        game.reset()
    assert restored.restore(game.state())
    for action in actions[100:]:
        assert (game.step(action), game.over(), game.truncated()) == (
            restored.step(action),
            restored.over(),
            restored.truncated(),
        )
        np.testing.assert_array_equal(game.screen, restored.screen)
        if game.over():
            break


def test_unsaveable_environment_is_not_restored():
    spec, config = spec_of(f"{MODULE}:HiddenState")
    assert not spec.kept
    assert any("restarts unfinished games" in line for line in spec.describe(config))
    game = spec.make_game(config, np.random.default_rng(1))
    assert game.state() == b"" and game.restore(b"") is False


@pytest.mark.parametrize(
    ("name", "kept"),
    [("FirstStepAttribute", True), ("LargeState", False), ("WrapperAttribute", True), ("PartlySaved", False)],
)
def test_trial_finds_whether_the_state_can_be_saved(name, kept):
    """A state is not saved if it is large, or if its plain part alone is inconsistent."""
    assert spec_of(f"{MODULE}:{name}")[0].kept == kept


@pytest.mark.parametrize("name", ["LateAttribute", "ClassDefault"])
def test_attribute_set_since_the_state_was_saved_is_removed(name):
    spec, config = spec_of(f"{MODULE}:{name}")
    game, other = (spec.make_game(config, np.random.default_rng(1)) for _ in range(2))
    for _ in range(30):
        game.step(1), other.step(1)
    before = game.state()
    for _ in range(15):
        game.step(1)
    assert game.restore(before)
    for _ in range(20):
        game.step(1), other.step(1)
        np.testing.assert_array_equal(game.screen, other.screen)


@pytest.mark.parametrize(("name", "seen"), [("LateAttribute", 45), ("ClassDefault", 0.06)])
def test_attribute_set_late_in_an_episode_is_saved(name, seen):
    """The attribute is set in step 40, after the trial. Until then the environment has none, or its class has it."""
    spec, config = spec_of(f"{MODULE}:{name}")
    game, restored = (spec.make_game(config, np.random.default_rng(seed)) for seed in (1, 2))
    for _ in range(45):
        game.step(1)
    assert spec.kept and restored.restore(game.state())
    game.step(0), restored.step(0)
    np.testing.assert_array_equal(game.screen, restored.screen)
    assert game.screen[0] == pytest.approx(seen)


def test_state_that_begins_to_hold_objects_is_not_saved(capsys):
    """Step 40 of a game adds them, after the end of the trial."""
    spec, config = spec_of(f"{MODULE}:LateObjects")
    game = spec.make_game(config, np.random.default_rng(1))
    before = game.state()
    assert spec.kept and before
    for _ in range(45):
        game.step(1)
    assert game.restore(before) is False and game.state() == b""
    assert "enemies of own_envs:LateObjects cannot be saved any more" in capsys.readouterr().err


def test_exception_of_a_state_method_is_reported():
    with pytest.raises(UsageError, match="own_envs:BrokenState cannot be used: ZeroDivisionError"):
        spec_of(f"{MODULE}:BrokenState")


def test_actions_are_clipped_to_one_sided_bounds():
    spec, config = spec_of(f"{MODULE}:OneSidedBounds")
    game = spec.make_game(config, np.random.default_rng(0))
    game.step(np.array([-3.0, 0.25]))
    np.testing.assert_array_equal(game._env.received, [0.0, 0.25])


def test_spaces_may_be_plain_namespaces():
    env = SimpleNamespace(
        observation_space=SimpleNamespace(n=4), action_space=SimpleNamespace(shape=(2,), low=-1.0, high=1.0)
    )
    found = gym_spec.spaces_of(env, "mine")
    assert (found.states, found.low, found.high, found.dtype) == (4, (-1.0, -1.0), (1.0, 1.0), "<f4")


def test_discrete_observation_out_of_range_is_refused():
    spec, config = spec_of("FrozenLake-v1")
    game = spec.make_game(config, np.random.default_rng(0))
    for observation in (-1, 16, 2.5, None):
        with pytest.raises(RunError, match=f"gave the observation {observation}, not one of its 16 states"):
            game._numbers(observation)


def test_box_is_flattened_and_discrete_is_one_hot():
    spec, config = spec_of("FrozenLake-v1")
    game = spec.make_game(config, np.random.default_rng(0))
    np.testing.assert_array_equal(game.screen, np.eye(16)[0])
    spec, config = spec_of(f"{MODULE}:BoxSpaces")
    game = spec.make_game(config, np.random.default_rng(0))
    assert spec.make_encoder(config).size == 6 and game.screen.shape == (6,) and game.screen.dtype == np.float32
    np.testing.assert_array_equal(game.screen, [0, 1, 2, 3, 4, 5])


@pytest.mark.parametrize(
    ("squash", "action", "expected"),
    [
        ("clip", [0.5, 0.5], [1.0, 0.5]),
        ("clip", [-7.0, -7.0], [-2.0, -7.0]),
        ("tanh", [0.5, 0.5], [2 * np.tanh(0.5), 0.5]),
    ],
)
def test_squash_brings_actions_within_the_bounds(squash, action, expected):
    """The first number of the action has bounds of -2 and 2, the second has none."""
    spec, config = spec_of(f"{MODULE}:BoxSpaces", "--squash", squash)
    game = spec.make_game(config, np.random.default_rng(0))
    game.step(np.array(action))
    np.testing.assert_allclose(game._env.received, expected, rtol=1e-6)


def test_widest_bounds_do_not_overflow():
    spec, config = spec_of(f"{MODULE}:WidestBounds")
    game = spec.make_game(config, np.random.default_rng(0))
    for action, expected in ((0.0, 0.0), (-1.0, -np.finfo(np.float32).max)):
        game.step(np.array([action]))
        assert game._env.received == [expected]


def test_pendulum_actions_are_scaled_to_the_bounds():
    spec, config = spec_of("Pendulum-v1")
    game, env = spec.make_game(config, np.random.default_rng(0)), gymnasium.make("Pendulum-v1")
    env.reset(seed=int(np.random.default_rng(0).integers(2**31)))
    observation, reward, *_ = env.step(np.array([1.0], np.float32))
    assert game.step(np.array([0.5])) == reward  # torques go from -2 to 2
    np.testing.assert_array_equal(game.screen, observation)


def test_each_game_of_each_env_has_another_seed(monkeypatch):
    seeds, reset = [], own_envs.Base.reset
    monkeypatch.setattr(own_envs.Base, "reset", lambda env, seed=None: seeds.append(seed) or reset(env))
    spec, config = spec_of(f"{MODULE}:Base")
    seeds.clear()  # of the trial
    for index in range(2):
        env = Env(index, config, spec)
        for _ in range(3):
            env.game.reset()
    assert len(set(seeds)) == len(seeds) == 8


def test_time_limit_truncates_and_failure_terminates():
    spec, config = spec_of("Pendulum-v1")
    game = spec.make_game(config, np.random.default_rng(0))
    for _ in range(200):
        assert not game.over()
        game.step(np.zeros(1))
    assert game.over() and game.truncated()
    spec, config = spec_of("CartPole-v1")
    game = spec.make_game(config, np.random.default_rng(0))
    while not game.over():
        game.step(0)
    assert not game.truncated(), "a fallen pole does not truncate"


@pytest.mark.parametrize(
    ("env_id", "message"),
    [
        ("CartPool-v1", "did you mean CartPole-v1?"),
        ("Pong-v5", "did you mean ALE/Pong-v5?"),
        ("CartPole-v7", "CartPole-v1"),
        (f"{MODULE}:TupleObservation", "Tuple(Discrete(2), Discrete(3)): supported observations are Box and Discrete"),
        (f"{MODULE}:BinaryObservation", "MultiBinary(5): supported observations are"),
        (f"{MODULE}:BinaryAction", "MultiBinary(4): supported observations are"),
        (f"{MODULE}:IntegerAction", "supported actions are Discrete and a 1-D Box of floats"),
        (f"{MODULE}:TextAction", "supported observations are Box and Discrete; supported actions"),
        (f"{MODULE}:OneAction", "fewer than two actions"),
        (f"{MODULE}:missing", "unknown env"),
        (f"{MODULE}:np", "must name a function or class, not module"),
        ("Ant-v3", "Ant-v3 cannot be created"),
        ("a:b:c", "a does not import"),
        ("no_such_module:Env", "no_such_module does not import: ModuleNotFoundError"),
        ("own_broken:Env", "own_broken does not import: ZeroDivisionError"),
    ],
)
def test_unsupported_environments_are_refused(env_id, message):
    with pytest.raises(UsageError) as refused:
        spec_of(env_id)
    assert message in str(refused.value) and "\n" not in str(refused.value)


FAULTY = ("NanReward", "InfiniteObservation", "ShapeChange", "NoneReward", "RaggedObservation")  # from the fifth step


@pytest.mark.parametrize(
    ("name", "steps", "message"),
    [
        *((name, 4, f"{MODULE}:{name} gave") for name in FAULTY),
        ("FourTuple", 0, f"the step of {MODULE}:FourTuple gave"),
        ("BareReset", 0, "the reset of"),
    ],
)
def test_invalid_results_are_refused(name, steps, message):
    """Of ``step`` after some valid steps, or of the old Gym interface."""
    config = config_of(f"{MODULE}:{name}")
    spec = gym_spec.GymSpec(config.env_id, gym_spec.spaces_of(gym_spec.make(config.env_id), config.env_id), True)
    rewards = []
    with pytest.raises(RunError, match=message):
        game = spec.make_game(config, np.random.default_rng(0))
        while len(rewards) < 20:
            rewards.append(game.step(spec.codes[0]))
    assert len(rewards) == steps


def test_inapplicable_settings_are_ignored_in_presets_and_refused_as_flags(tmp_path):
    preset = tmp_path / "breakout.json"
    preset.write_text(json.dumps({"hidden": 32, "sticky": 0.5}))
    config = config_of("FrozenLake-v1", "--preset", str(preset))
    assert (config.hidden, config.sticky) == (32, 0.0)
    for env_id, flag in (("FrozenLake-v1", "--sticky"), ("ALE/Pong-v5", "--normalise")):
        with pytest.raises(UsageError, match=f"{flag} has no effect on {env_id}: leave it out"):
            config_of(env_id, flag, "0" if flag == "--sticky" else "true")


def test_one_hot_observations_are_not_normalised():
    spec, config = spec_of("FrozenLake-v1")
    policy = factory.make_policy(config, spec)
    np.testing.assert_array_equal(policy._stacked([np.eye(16, dtype=np.float32)[3]]), [np.eye(16)[3]])


def test_no_statistics_are_kept_of_observations_that_are_not_normalised():
    spec, config = spec_of("CartPole-v1", "--normalise", "false", "--rewards", "scaled")
    policy = factory.make_policy(config, spec)
    assert policy.norm.state.shape == (3,), "count, mean and squares of the return"


@pytest.mark.parametrize(("squash", "bound"), [("clip", 0.99), ("tanh", np.arctanh(0.99))])
def test_random_actions_reach_the_bounds(squash, bound):
    spec, _ = spec_of("Pendulum-v1")
    generators = [np.random.default_rng(seed) for seed in range(1000)]
    drawn = np.array([action for _, action, _ in RandomPolicy(spec, squash).sample(generators, generators)])
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
def test_malformed_environment_state_is_refused(state):
    spec, config = spec_of("CartPole-v1")
    with pytest.raises(CheckpointError, match="CartPole-v1 refused its saved state: resume with the version"):
        spec.make_game(config, np.random.default_rng(0)).restore(state)


def test_pack_and_unpack_round_trip():
    class Holder:
        def step(self):
            """Mark the class as an environment."""

    class Wrapper(Holder):
        pass

    holder, wrapper, rng = Holder(), Wrapper(), np.random.default_rng(3)
    rng.random(5)
    holder.values = [1, 2.5, None, True, "word", (np.float32(0.1), np.int64(7)), {"a": np.arange(6.0).reshape(2, 3)}]
    holder.np_random, holder.odd = rng, np.random.Generator(np.random.MT19937(1))
    holder.space = spaces.Discrete(3)
    wrapper.env, wrapper.count = holder, 12
    saved = json.dumps(env_state.plain(wrapper)).encode()
    expected = [holder.np_random.random(), holder.odd.random()]
    holder.values, wrapper.count, space = None, 0, holder.space
    env_state.unpack(wrapper, saved)
    assert [holder.np_random.random(), holder.odd.random()] == expected
    assert wrapper.count == 12 and holder.space is space
    *simple, pair, mapping = holder.values
    assert simple == [1, 2.5, None, True, "word"] and pair == (np.float32(0.1), 7) and type(pair[0]) is np.float32
    np.testing.assert_array_equal(mapping["a"], [[0, 1, 2], [3, 4, 5]])


def test_termination_outweighs_truncation():
    config = parse_train(["--env-id", "own_envs:Truncating"])[0]
    game = gym_spec.make_spec(config).make_game(config, np.random.default_rng(0))
    step = game._env.step
    game._env.step = lambda action: (*step(action)[:2], True, True, {})
    game.step(0)
    assert game.over() and not game.truncated()
