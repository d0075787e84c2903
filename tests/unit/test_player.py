"""Play: raw scores, and emulators that fail."""

import numpy as np
import pytest

from pg_mpi.config.command_line import parse_train
from pg_mpi.config.errors import RunError
from pg_mpi.env import atari_spec
from pg_mpi.features.foreground import Scene
from pg_mpi.learning.phases import PhaseTimer
from pg_mpi.learning.rollout import Env, Player
from pg_mpi.learning.round_length import RoundLength

SCENE = Scene(np.zeros((1, 210, 160), np.uint8), np.zeros(256, np.uint8))


class Valued:
    """A network with action 1 and the value 4."""

    def sample(self, seen, rngs, preferences):
        return [(4.0, 1, -1.0)] * len(seen)

    def value(self, observation):
        return 4.0


def failing_env(fails):
    config, _ = parse_train(["--env-id", "ALE/Freeway-v5", "--gamma", "0.5"])
    env = Env(0, config, atari_spec.AtariSpec(SCENE, [0, 2, 5]))
    make, calls = env._make, [0]

    def fail(game):
        step = game.step

        def failing(code):
            calls[0] += 1
            if fails(calls[0]):
                raise RuntimeError("injected")
            return step(code)

        game.step = failing
        return game

    fail(env.game)
    env._make = lambda: fail(make())
    return env, Player([env], [0, 2, 5], config, PhaseTimer())


def test_game_of_a_failed_emulator_ends_and_is_bootstrapped():
    env, player = failing_env(lambda call: call == 4)
    (t,) = player.play(Valued(), RoundLength(6, np.inf))
    assert t.ends.tolist() == [False, False, True, False, False] and t.ahead == [(2, 2.0)] and t.cuts == [3]


def test_only_failures_in_a_row_end_the_run():
    env, player = failing_env(lambda call: call % 2 == 0)
    (t,) = player.play(Valued(), RoundLength(24, np.inf))
    assert t.errors == 12
    env, player = failing_env(lambda call: call > 2)
    with pytest.raises(RunError, match="failed 10 times in a row"):
        player.play(Valued(), RoundLength(24, np.inf))


def test_scores_are_the_sum_of_raw_rewards():
    config, _ = parse_train(["--env-id", "ALE/Freeway-v5"])
    env = Env(0, config, atari_spec.AtariSpec(SCENE, [0, 2, 5]))
    rewards = iter([0, 7, -3, 0.5])
    env.game.step = lambda code: next(rewards)
    Player([env], [0, 2, 5], config, PhaseTimer()).play(Valued(), RoundLength(4, np.inf))
    assert (env.score, env.steps) == (4.5, 4)
