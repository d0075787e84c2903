"""The emulator: the same game as Gymnasium's, and a state that continues bit for bit."""

import subprocess
import sys

import ale_py
import gymnasium
import numpy as np
import pytest

from pg_mpi.config.errors import CheckpointError, UsageError
from pg_mpi.env.atari import AtariGame, rom_name

gymnasium.register_envs(ale_py)


def test_ids_are_gymnasiums():
    ids = [spec for spec in gymnasium.registry if spec.startswith("ALE/") and spec.endswith("-v5")]
    assert len(ids) > 100
    ours = {env_id: rom_name(env_id) for env_id in ids if "-ram" not in env_id}
    theirs = {env_id: gymnasium.registry[env_id].kwargs["game"] for env_id in ours}
    assert ours == theirs


def test_unknown_game_names_the_nearest():
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


PLAY_ON = """
import sys, numpy as np
from pg_mpi.env.atari import AtariGame
rng, total = np.random.default_rng(1), 0
game = AtariGame("ALE/Pong-v5", rng)
game.restore(open(sys.argv[1], "rb").read())
for _ in range(2500):
    if game.over():
        game.reset()
    total = (total * 31 + int(game.screen.sum()) * (game.step(game.actions[rng.integers(6)]) + 3)) % 2**61
print(total)
"""


def test_state_continues_in_another_process(tmp_path):
    """Two processes go on from one state into the next game, sticky actions included, and stay equal."""
    rng = np.random.default_rng(2)
    game = AtariGame("ALE/Pong-v5", rng)
    for _ in range(700):
        game.step(game.actions[rng.integers(6)])
    (tmp_path / "state").write_bytes(game.state())
    command = [sys.executable, "-c", PLAY_ON, str(tmp_path / "state")]
    first, second = (subprocess.run(command, capture_output=True, text=True, timeout=60) for _ in range(2))
    assert first.stdout == second.stdout
    assert int(first.stdout) > 0, first.stderr


def test_the_sticky_action_survives_a_restore():
    """Where every step repeats the action before, a restored emulator goes on with that very action."""
    rng = np.random.default_rng(0)
    game, other = (AtariGame("ALE/Pong-v5", rng, sticky=0.0) for _ in range(2))
    for action in [3] * 40 + [4] * 3:  # off the wall, on the way down
        game.step(action)
    state = game.state()
    other.restore(state)
    for _ in range(3):
        for emulator in (game, other):
            emulator._sticky = 0.999999  # from here on the last action goes on, whatever is asked
            emulator.step(3)
        np.testing.assert_array_equal(game.screen, other.screen)
    moved = game.screen.copy()
    game.restore(bytes([0]) + state[1:])
    for _ in range(3):
        game.step(3)
    assert not np.array_equal(game.screen, moved), "the action before makes no difference: the test tests nothing"


class Counting:
    """Stands in for the emulator: notes which action each frame was given."""

    def __init__(self):
        self.frames = []

    def __call__(self, action):
        self.frames.append(action)
        return 0


def test_sticky_actions_have_the_ales_probabilities():
    """Frame by frame: the action before goes on with probability 0.25, else the new one takes over for good."""
    game = AtariGame("ALE/Pong-v5", np.random.default_rng(3))
    runs = np.zeros(5)
    for step in range(20_000):
        game._advance = Counting()
        new, old = (3, 4) if step % 2 else (4, 3)
        game._last = old
        game.step(new)
        frames = game._advance.frames
        stuck = frames.count(old)
        assert frames == [old] * stuck + [new] * (4 - stuck)
        assert game._last == (new if stuck < 4 else old)
        runs[stuck] += 1
    expected = 0.75 * 0.25 ** np.arange(5)
    expected[4] = 0.25**4
    assert (np.abs(runs / runs.sum() - expected) < 4 * np.sqrt(expected / 20_000)).all(), runs


def test_damaged_state_is_our_error():
    game = AtariGame("ALE/Pong-v5", np.random.default_rng(1))
    with pytest.raises(CheckpointError):
        game.restore(game.state()[:100])


def test_frame_cap_truncates():
    game = AtariGame("ALE/Pong-v5", np.random.default_rng(1), max_frames=400)
    steps = 0
    while not game.over():
        game.step(0)
        steps += 1
    assert game.truncated()
    assert steps <= 101
