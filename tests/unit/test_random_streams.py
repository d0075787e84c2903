"""Random streams and first weights differ by seed, env and purpose."""

import numpy as np
import pytest

from pg_mpi.config import random_streams
from pg_mpi.config.command_line import parse_train
from pg_mpi.env import atari_spec, registry
from pg_mpi.features.foreground import Scene
from pg_mpi.learning.rollout import Env
from pg_mpi.run import factory, trained_policy
from pg_mpi.run.trained_policy import SavedPolicy, TrainedPolicy

SCENE = Scene(np.zeros((1, 210, 160), np.uint8), np.zeros(256, np.uint8))
PONG = atari_spec.AtariSpec(SCENE, [0, 3, 4])


def test_random_streams_differ_by_seed_env_and_purpose():
    drawn = []
    for seed in ("0", "1"):
        config, _ = parse_train(["--seed", seed])
        drawn += [rng.random() for index in (0, 1) for rng in Env(index, config, PONG)._streams]
    assert len(set(drawn)) == 12


@pytest.mark.parametrize("env_id", ["ALE/Pong-v5", "CartPole-v1"])
def test_seeds_begin_with_other_weights(env_id):
    spec = PONG if env_id.startswith("ALE") else registry.make_spec(parse_train(["--env-id", env_id])[0])
    one, other = (
        factory.make_policy(parse_train(["--env-id", env_id, "--seed", seed])[0], spec).theta for seed in "01"
    )
    assert not np.array_equal(one, other)


def test_evaluations_use_their_own_streams_and_the_sticky_probability_asked_for(monkeypatch):
    used = []

    def recorded(*key):
        used.append(key)
        return random_streams.stream(*key)

    monkeypatch.setattr(trained_policy, "stream", recorded)
    config, _ = parse_train(["--max-frames", "80", "--hidden", "2"])
    policy = factory.make_policy(config, PONG)
    made = []
    monkeypatch.setattr(
        atari_spec.AtariSpec,
        "make_game",
        lambda self, config, rng, film, make=atari_spec.AtariSpec.make_game: (
            made.append(config.sticky) or make(self, config, rng, film)
        ),
    )
    saved = SavedPolicy("", 0, config, PONG, {"theta": policy.theta})
    player = TrainedPolicy(saved, sticky=0.5)
    for game in (3, 4):
        player.play(game, 7)
    assert made == [0.5, 0.5]
    assert {key[0] for key in used} == {7} and {key[2] for key in used} == {3, 4} and len(set(used)) == 4
    training = {random_streams.STICKY, random_streams.ACTIONS, random_streams.SHUFFLE}
    assert not training & {key[1] for key in used}
