"""The features made by hand for Pong: crossings of a path that the upper and lower border reflect."""

import numpy as np
import pytest

from pg_mpi.features.blob_inputs import DRIFTS, HALVES
from pg_mpi.features.blobs import Blob
from pg_mpi.features.pong import BOTTOM, SHAPE, TOP, course

PADDLE = {"height": 32, "width": 4, "colour": 2}
BALL = {"height": 4, "width": 2, "colour": 3}


def arrival(y, vy, steps):
    """Follow the ball from border to border: its place after ``steps`` steps."""
    while True:
        border = BOTTOM if vy > 0 else TOP
        until = (border - y) / vy if vy else np.inf
        if until >= steps:
            return y + vy * steps
        y, vy, steps = border, -vy, steps - until


def test_paths_are_followed_from_border_to_border():
    rng, met = np.random.default_rng(1), 0
    for _ in range(2000):
        ball = Blob(int(rng.integers(TOP, BOTTOM)), int(rng.integers(320)), vy=int(rng.integers(-60, 60)), vx=8, **BALL)
        paddle = Blob(int(rng.integers(TOP, BOTTOM)), int(rng.integers(320)), vy=-5, ay=7, **PADDLE)
        number, steps = course(ball, paddle), (paddle.x - ball.x) / ball.vx
        assert (number is None) == (not 0 < steps <= 32)
        if number is None:
            continue
        met += 1
        direction, time, offset, drift, turn = np.unravel_index(number, SHAPE)
        assert (direction, turn) == (1, 2) and steps <= 2**time and (time == 0 or steps > 2 ** (time - 1))
        assert drift == len(DRIFTS) - 2, "5 half pixels per step are in the second bin beside none"
        beside = arrival(ball.y, ball.vy, steps) - paddle.y
        ends = [-1] + HALVES + [np.inf]
        size, sign = abs(int(offset) - len(HALVES)), np.sign(int(offset) - len(HALVES))
        near = 0.5 + 1e-9  # offsets are rounded
        assert ends[size] - near <= abs(beside) <= ends[size + 1] + near and sign in (0, np.sign(beside))
    assert met > 500


@pytest.mark.parametrize(("y", "offset"), [(200, 16), (210, 9)])  # none; and 9 to 11 half pixels above
def test_number_by_hand(y, offset):
    """To the right, in 9 to 16 steps, by a paddle that is still."""
    found = course(Blob(200, 100, vx=8, **BALL), Blob(y, 180, **PADDLE))
    assert found == (((1 * 6 + 4) * 33 + offset) * 7 + 3) * 3 + 1
