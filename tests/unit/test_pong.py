"""The features made by hand for Pong: crossings of a path that the upper and lower border reflect."""

import numpy as np
import pytest

from pg_mpi.features.blob_inputs import DRIFTS, HALVES
from pg_mpi.features.blobs import Blob
from pg_mpi.features.foreground import Scene
from pg_mpi.features.pong import BOTTOM, SHAPE, TOP, Courses, course
from pg_mpi.features.registry import OURS

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


def test_courses_are_numbered_after_the_general_inputs():
    """A ball that moves to the right, towards a paddle that is still, on screens of 210 rows."""
    scene = Scene(np.zeros((1, 210, 160), np.uint8), np.zeros(256, np.uint8))
    courses, general = Courses(scene), OURS["blobs"](scene)
    screens = []
    for x in (40, 44):
        screen = np.zeros((210, 160), np.uint8)
        screen[100:104, x : x + 2] = screen[90:106, 90:92] = 1
        screens.append(screen)
    assert np.array_equal(courses.start(screens[0]), general.start(screens[0])), "nothing moves yet"
    observation, without = courses.step(screens[1]), general.step(screens[1])
    ball, paddle = sorted(general.blobs, key=lambda blob: blob.x)
    expected = general.size + course(ball, paddle)
    assert observation.tolist() == [*without, expected] and expected < courses.size
    again = Courses(scene)
    assert again.restore(courses.state()).tolist() == observation.tolist()


@pytest.mark.parametrize(("y", "offset"), [(200, 16), (210, 9)])  # none; and 9 to 11 half pixels above
def test_number_by_hand(y, offset):
    """To the right, in 9 to 16 steps, by a paddle that is still."""
    found = course(Blob(200, 100, vx=8, **BALL), Blob(y, 180, **PADDLE))
    assert found == (((1 * 6 + 4) * 33 + offset) * 7 + 3) * 3 + 1
