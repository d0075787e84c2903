"""The ``karpathy`` preset follows an independent dense float64 implementation over whole games."""

import numpy as np
import pytest
from jobs import command, metrics, newest, run
from oracle.karpathy_serial import play_and_learn

from pg_mpi.config.command_line import parse_train
from pg_mpi.env.atari_spec import AtariSpec
from pg_mpi.features.foreground import Scene
from pg_mpi.files import checkpoint_file
from pg_mpi.run import factory

SEED = 4
SCENE = Scene(np.zeros((1, 210, 160), np.uint8), np.zeros(256, np.uint8))


@pytest.mark.parametrize(
    "flags, options", [([], {}), (["--games-per-update", "2", "--learning-rate", "1e-4"], {"games_per_update": 2})]
)
def test_karpathy_preset_follows_the_oracle(tmp_path, flags, options):
    """After several updates the games are identical and the weights agree within float32 rounding.

    Sticky actions are off, because their random streams differ. The first step changes a weight by up to 10 x the
    learning rate, later steps by about the rate; the tolerance is 1 % of the rate.
    """
    flags = ["--preset", "karpathy", "--seed", SEED, "--hidden", 32, "--sticky", 0, *flags]
    result = run(command(1, "pg_mpi.train", *flags, "--total-timesteps", 4500, "--run-dir", "run"), tmp_path, limit=120)
    assert result.returncode == 0, result.stderr
    lines = metrics(tmp_path)
    games = lines[-1]["games"]
    assert games >= 4

    config, _ = parse_train([str(flag) for flag in flags])
    start = factory.make_policy(config, AtariSpec(SCENE, [3, 4]))
    first, heads, _, _ = start.views(start.theta)
    rate = config.learning_rate
    oracle = play_and_learn(games, seed=SEED, w1=first.T, w2=heads[:, 0], learning_rate=rate, sticky=0.0, **options)

    arrays, facts = checkpoint_file.load(newest(tmp_path)[0])
    assert facts["counters"]["recent"] == [list(game) for game in zip(oracle.scores, oracle.lengths)]
    first, heads, _, _ = start.views(arrays["theta"])
    np.testing.assert_allclose(first.T, oracle.w1, rtol=0, atol=0.01 * rate)
    np.testing.assert_allclose(heads[:, 0], oracle.w2, rtol=0, atol=0.01 * rate)
    change = np.abs(oracle.w2 - start.views(start.theta)[1][:, 0])
    assert np.median(change) > rate, "the weights hardly changed"
    cache, head_cache, _, _ = start.views(arrays["optimizer"][0])
    np.testing.assert_allclose(cache.T, oracle.cache1, rtol=2e-3, atol=1e-7)
    np.testing.assert_allclose(head_cache[:, 0], oracle.cache2, rtol=2e-3)
