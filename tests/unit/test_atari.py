"""The emulator plays the same game as Gymnasium's, and a restored state continues bit for bit."""

import inspect
import subprocess
import sys

import ale_py
import gymnasium
import numpy as np
import pytest

from pg_mpi.config.errors import UsageError
from pg_mpi.env.atari import AtariGame, rom_name

gymnasium.register_envs(ale_py)


def test_ids_match_gymnasium():
    ids = [spec for spec in gymnasium.registry if spec.startswith("ALE/") and spec.endswith("-v5")]
    assert len(ids) > 100
    found = {env_id: rom_name(env_id) for env_id in ids if "-ram" not in env_id}
    expected = {env_id: gymnasium.registry[env_id].kwargs["game"] for env_id in found}
    assert found == expected


def test_unknown_game_suggests_the_nearest():
    with pytest.raises(UsageError, match="did you mean ALE/Pong-v5"):
        rom_name("ALE/Ponng-v5")


def test_same_game_as_gymnasium():
    spec = gymnasium.registry["ALE/Pong-v5"].kwargs
    assert (spec["frameskip"], spec["repeat_action_probability"]) == (4, 0.25)
    assert spec["max_num_frames_per_episode"] == 108_000
    env = gymnasium.make("ALE/Pong-v5", repeat_action_probability=0.0, disable_env_checker=True)
    env.reset(seed=5)
    rng = np.random.default_rng(0)
    game = AtariGame("ALE/Pong-v5", rng, sticky=0.0)
    for _ in range(1200):
        action = rng.integers(6)
        observation, reward, terminated, truncated, _ = env.step(action)
        assert game.step(game.actions[action]) == reward
        np.testing.assert_array_equal(game.rgb(), observation)
        assert game.over() == (terminated or truncated)
        if terminated or truncated:
            break
    assert terminated


def total(game, rng):
    """A checksum of the screens and rewards of 2,500 random steps."""
    found = 0
    for _ in range(2500):
        if game.over():
            game.reset()
        reward = game.step(game.actions[rng.integers(6)])
        found = (found * 31 + int(game.screen.sum()) * (reward + 3)) % 2**61
    return found


CONTINUE = f"""
import sys, numpy as np
from pg_mpi.env.atari import AtariGame
{inspect.getsource(total)}
rng = np.random.default_rng(1)
game = AtariGame("ALE/Pong-v5", rng)
game.restore(open(sys.argv[1], "rb").read())
print(total(game, rng))
"""


def test_state_continues_in_another_process(tmp_path):
    """It plays as the game that was saved does, into the next game, with sticky actions."""
    rng = np.random.default_rng(2)
    game = AtariGame("ALE/Pong-v5", rng)
    for _ in range(700):
        game.step(game.actions[rng.integers(6)])
    (tmp_path / "state").write_bytes(game.state())
    command = [sys.executable, "-c", CONTINUE, str(tmp_path / "state")]
    continued = subprocess.run(command, capture_output=True, text=True, timeout=60)
    rng = np.random.default_rng(1)
    game.draw_from(rng)
    assert int(continued.stdout or -1) == total(game, rng), continued.stderr


def test_sticky_action_is_restored():
    """If every frame repeats the last action, a restored emulator repeats the saved one."""
    rng = np.random.default_rng(0)
    game, restored = (AtariGame("ALE/Pong-v5", rng, sticky=0.0) for _ in range(2))
    for action in [3] * 40 + [4] * 3:  # off the wall, on the way down
        game.step(action)
    state = game.state()
    restored.restore(state)
    for _ in range(3):
        for emulator in (game, restored):
            emulator._sticky = 0.999999  # from here on the last action is repeated
            emulator.step(3)
        np.testing.assert_array_equal(game.screen, restored.screen)
    repeated = game.screen.copy()
    game.restore(bytes([0]) + state[1:])
    for _ in range(3):
        game.step(3)
    assert not np.array_equal(game.screen, repeated), "the last action has no effect"


class FrameRecorder:
    """Replaces the emulator. Records the action of each frame."""

    def __init__(self):
        self.frames = []

    def __call__(self, action):
        self.frames.append(action)
        return 0


def test_sticky_actions_have_the_probabilities_of_the_ale():
    """Each frame repeats the old action with probability 0.25. Otherwise the rest of the step has the new action."""
    game = AtariGame("ALE/Pong-v5", np.random.default_rng(3))
    histogram = np.zeros(5)
    for step in range(20_000):
        game._advance = FrameRecorder()
        new, old = (3, 4) if step % 2 else (4, 3)
        game._last = old
        game.step(new)
        frames = game._advance.frames
        repeats = frames.count(old)
        assert frames == [old] * repeats + [new] * (4 - repeats)
        assert game._last == (new if repeats < 4 else old)
        histogram[repeats] += 1
    expected = 0.75 * 0.25 ** np.arange(5)
    expected[4] = 0.25**4
    assert (np.abs(histogram / histogram.sum() - expected) < 4 * np.sqrt(expected / 20_000)).all(), histogram


def test_max_frames_truncates():
    game = AtariGame("ALE/Pong-v5", np.random.default_rng(1), max_frames=400)
    steps = 0
    while not game.over():
        game.step(0)
        steps += 1
    assert game.truncated()
    assert steps <= 101
