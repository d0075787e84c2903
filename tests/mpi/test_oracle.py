"""Karpathy's method: the examples agree, and the ``karpathy`` preset follows them over whole games."""

import subprocess
import sys

import numpy as np
import pytest
from jobs import ROOT, command, metrics, newest, run

from examples import pong_faster, pong_serial
from pg_mpi.config.command_line import parse_train
from pg_mpi.env.atari_spec import AtariSpec
from pg_mpi.features.foreground import Scene
from pg_mpi.files import checkpoint_file
from pg_mpi.run import factory

SEED = 4
SCENE = Scene(np.zeros((1, 210, 160), np.uint8), np.zeros(256, np.uint8))


@pytest.fixture(scope="module")
def two_games():
    """The weights after two games of the serial example, and the score and steps of each."""
    theta = pong_serial.initial_weights(SEED)
    return theta, [*pong_serial.train(theta, np.zeros_like(theta), 2, SEED)]


@pytest.mark.parametrize(
    "flags, options", [([], {}), (["--games-per-update", "2", "--learning-rate", "1e-4"], {"games_per_update": 2})]
)
def test_karpathy_preset_follows_the_serial_example(tmp_path, flags, options):
    """After several updates the games are identical and the weights agree within float32 rounding.

    Sticky actions are off, because their random streams differ. The first step changes a weight by up to 10 x the
    learning rate, later steps by about the rate; the tolerance is 1 % of the rate.
    """
    flags = ["--preset", "karpathy", "--seed", SEED, "--hidden", 32, "--sticky", 0, *flags]
    run(command(1, "pg_mpi.train", *flags, "--total-timesteps", 4500, "--run-dir", "run"), tmp_path, limit=120, code=0)
    lines = metrics(tmp_path)
    games = lines[-1]["games"]
    assert games >= 4

    config, _ = parse_train([str(flag) for flag in flags])
    start = factory.make_policy(config, AtariSpec(SCENE, [3, 4]))
    first, heads, _, _ = start.views(start.theta)
    rate = config.learning_rate
    theta = np.append(first.T.astype(float), heads[:, 0])
    cache = np.zeros_like(theta)
    games_played = [*pong_serial.train(theta, cache, games, SEED, 0.0, rate, **options)]
    (w1, w2), (cache1, cache2) = pong_serial.views(theta), pong_serial.views(cache)

    arrays, facts = checkpoint_file.load(newest(tmp_path)[0])
    assert facts["counters"]["recent"] == [list(game) for game in games_played]
    first, heads, _, _ = start.views(arrays["theta"])
    np.testing.assert_allclose(first.T, w1, rtol=0, atol=0.01 * rate)
    np.testing.assert_allclose(heads[:, 0], w2, rtol=0, atol=0.01 * rate)
    change = np.abs(w2 - start.views(start.theta)[1][:, 0])
    assert np.median(change) > rate, "the weights hardly changed"
    cache, head_cache, _, _ = start.views(arrays["optimizer"][0])
    np.testing.assert_allclose(cache.T, cache1, rtol=2e-3, atol=1e-7)
    np.testing.assert_allclose(head_cache[:, 0], cache2, rtol=2e-3)


@pytest.mark.parametrize("ranks", [1, 3])
def test_mpi_example_has_equal_weights_on_all_ranks_and_the_serial_ones_on_one(tmp_path, ranks, two_games):
    games = "2" if ranks == 1 else "1"
    run(command(ranks, "train_example"), tmp_path, code=0, FOLDER=str(tmp_path), GAMES=games)
    first, *others = (np.load(tmp_path / f"{rank}.npy") for rank in range(ranks))
    assert all(other.tobytes() == first.tobytes() for other in others)
    assert not np.array_equal(first, pong_serial.initial_weights(SEED))
    if ranks == 1:
        assert first.tobytes() == two_games[0].tobytes()


def test_examples_print_the_same_games(tmp_path):
    """Serial and on one rank. On two ranks, from rank 0 only, a line for each update with the mean of their scores."""

    def output(start, name):
        line = [*start, sys.executable, ROOT / "examples" / name, "--games", "1", "--seed", SEED]
        lines = run(list(map(str, line)), tmp_path).stdout.splitlines()
        return [line.partition(" s ")[2] for line in lines]

    serial = output([], "pong_serial.py")
    assert len(serial) == 1 and "score -" in serial[0]
    one, two = (output(command(ranks, "x")[:-3], "pong_mpi.py") for ranks in (1, 2))
    assert one == serial
    assert len(two) == 1 and two != one


def test_examples_are_as_short_as_promised():
    serial, parallel = (ROOT / "examples" / f"pong_{name}.py" for name in ("serial", "mpi"))
    assert len(serial.read_text().splitlines()) <= 130
    difference = subprocess.run(["diff", serial, parallel], capture_output=True, text=True).stdout
    assert 0 < sum(line.startswith(">") for line in difference.splitlines()) <= 15


@pytest.mark.parametrize("stage", pong_faster.STAGES)
def test_faster_forms_learn_the_same(stage, two_games):
    """The first form has the bits of the serial example; the others differ by float32's rounding."""
    theta, played = two_games
    player = stage(SEED)
    assert [player.play_and_learn() for _ in played] == played
    w1, w2 = player.weights
    w1 = w1 if w1.shape == (pong_serial.HIDDEN, pong_serial.INPUTS) else w1.T
    found = np.append(w1.ravel(), w2)
    if stage is pong_faster.AsItIs:
        assert found.tobytes() == theta.tobytes()
    np.testing.assert_allclose(found, theta, rtol=0, atol=0.01 * pong_serial.RATE)
