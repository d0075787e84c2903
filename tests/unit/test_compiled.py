"""look.c against the numpy it stands in for: the same numbers, on games, on made-up screens and across a restart."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pg_mpi.game import compiled
from pg_mpi.game.atari import AtariGame
from pg_mpi.game.compiled import KINDS, CompiledEncoder
from pg_mpi.game.eye import PIXELS, Eye
from pg_mpi.game.features import FrameEncoder
from pg_mpi.game.shapes import HEIGHT, WIDTH
from pg_mpi.game.survey import find_scene

ROOT = Path(__file__).parents[2]
BACKGROUNDS = np.stack([np.zeros((HEIGHT, WIDTH), np.uint8), np.full((HEIGHT, WIDTH), 9, np.uint8)])
PLANES = np.zeros(256, dtype=np.uint8)
PLANES[[3, 5]] = 1, 2

rectangles = st.tuples(
    st.integers(0, HEIGHT - 1),
    st.integers(0, WIDTH - 1),
    st.integers(1, 24),
    st.integers(1, 9),
    st.sampled_from([1, 3, 5]),
)
moved = st.tuples(st.integers(-12, 12), st.integers(-10, 10))


def screen(field):
    """A 210 x 160 screen that shows ``field``, uint8 (80, 80), and something else wherever nobody looks."""
    whole = np.full((210, 160), 7, dtype=np.uint8)
    whole[35:195:2, ::2] = field
    return whole


def drawn(shapes):
    field = np.zeros((HEIGHT, WIDTH), dtype=np.uint8)
    for y, x, height, width, colour in shapes:
        field[max(y, 0) : max(y + height, 0), max(x, 0) : max(x + width, 0)] = colour
    return field


def both(kind, planes=None):
    eye = Eye(BACKGROUNDS, planes)
    return FrameEncoder(kind, eye), CompiledEncoder(kind, eye)


def same(one, other, verb, screens):
    for each in screens:
        seen, compiled_ = getattr(one, verb)(each), getattr(other, verb)(each)
        assert seen.dtype == compiled_.dtype == np.int64
        np.testing.assert_array_equal(compiled_, seen)


def test_it_was_compiled():
    """Here, where the tests run, there is a compiler; or all below would try nothing."""
    assert compiled.LOOK is not None


@pytest.mark.parametrize("name", ["Pong", "MsPacman", "Asteroids", "SpaceInvaders"])
def test_the_same_on_games(name):
    """MsPacman and Asteroids have four planes of colours, the latter crowds in which nobody can tell what moved."""
    env_id, rng = f"ALE/{name}-v5", np.random.default_rng(4)
    eye = Eye(*find_scene(env_id)[:2])
    game = AtariGame(env_id, rng)
    pairs = [(FrameEncoder(kind, eye), CompiledEncoder(kind, eye)) for kind in KINDS]
    for one, other in pairs:
        same(one, other, "start", [game.screen])
    for _ in range(1500):
        if game.over():
            game.reset()
            for one, other in pairs:
                same(one, other, "start", [game.screen])
        game.act(game.actions[rng.integers(len(game.actions))])
        for one, other in pairs:
            same(one, other, "step", [game.screen])


@settings(deadline=None, max_examples=300, derandomize=True)
@given(
    st.sampled_from(KINDS),
    st.booleans(),
    st.lists(rectangles, max_size=7),
    st.lists(st.lists(moved, min_size=7, max_size=7), min_size=1, max_size=4),
    st.integers(0, 400),
)
def test_the_same_on_made_up_screens(kind, coloured, shapes, steps, noise):
    """Shapes that move, touch, leave the screen and turn; up to some hundred single pixels; two backgrounds."""
    fields, rng = [drawn(shapes)], np.random.default_rng(noise)
    for ways in steps:
        shapes = [(y + down, x + across, *rest) for (y, x, *rest), (down, across) in zip(shapes, ways)]
        fields.append(drawn(shapes))
    for field in fields[1:]:
        field.ravel()[rng.integers(0, PIXELS, noise)] = rng.choice([3, 5, 9], noise)
    one, other = both(kind, PLANES if coloured else None)
    same(one, other, "start", [screen(fields[0])])
    same(one, other, "step", [screen(field) for field in fields[1:]])


@pytest.mark.parametrize("share", [0.0, 0.1, 0.13, 0.5, 1.0])
@pytest.mark.parametrize("kind", KINDS)
def test_the_same_on_full_and_empty_screens(kind, share):
    rng = np.random.default_rng(1)
    one, other = both(kind, PLANES)
    fields = [np.where(rng.random((HEIGHT, WIDTH)) < share, 3, 0).astype(np.uint8) for _ in range(5)]
    same(one, other, "start", [screen(fields[0])])
    same(one, other, "step", map(screen, fields[1:]))


@pytest.mark.parametrize("kind", KINDS)
def test_either_goes_on_from_the_others_state(kind):
    rng = np.random.default_rng(2)
    game, eye = AtariGame("ALE/Pong-v5", rng), Eye(*find_scene("ALE/Pong-v5")[:2])
    one, other = FrameEncoder(kind, eye), CompiledEncoder(kind, eye)
    same(one, other, "start", [game.screen])
    for step in range(400):
        game.act(game.actions[rng.integers(6)])
        same(one, other, "step", [game.screen])
        if step % 50 == 0:
            state = one.state()
            np.testing.assert_array_equal(other.state(), state)
            np.testing.assert_array_equal(other.restore(state), one.restore(state))
            one, other = FrameEncoder(kind, eye), CompiledEncoder(kind, eye)
            np.testing.assert_array_equal(other.restore(state), one.restore(state))


@pytest.mark.parametrize(
    "state", [np.full((3, 3 * PIXELS // 8), 255), np.zeros((2, 3 * PIXELS // 8)), np.zeros((3, PIXELS // 8))]
)
def test_a_state_that_no_screens_leave_is_refused(state):
    _, other = both("edge", PLANES)
    with pytest.raises(ValueError, match="two colours|shape"):
        other.restore(state.astype(np.uint8))


@pytest.mark.parametrize(
    "bad", [np.zeros((194, 160), np.uint8), np.zeros((210, 320), np.uint8)[:, ::2], np.zeros((210, 160), np.int32)]
)
def test_a_screen_of_another_kind_is_refused(bad):
    _, other = both("pair")
    with pytest.raises(ValueError, match="a screen of"):
        other.start(bad)


def told(code, cwd=None, **environment):
    """What a fresh Python prints."""
    words = [sys.executable, "-c", f"from pg_mpi.game import compiled; {code}"]
    done = subprocess.run(words, env={**os.environ, **environment}, cwd=cwd, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_numpy_does_it_where_it_is_asked_to():
    assert told("print(compiled.LOOK, compiled.WHY_NUMPY)", PG_MPI_NUMPY="1") == "None as PG_MPI_NUMPY asks"


def test_a_copy_of_the_package_finds_the_library_that_was_installed_but_no_other_one(tmp_path):
    """As where a clone is installed as a copy and run from its own folder; and then its look.c is edited."""
    shutil.copytree(ROOT / "pg_mpi", tmp_path / "pg_mpi", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    code = "print(compiled.__file__, compiled.LOOK and compiled.LOOK._name, compiled.WHY_NUMPY)"
    path = os.pathsep.join((str(tmp_path), str(ROOT)))
    file, library, _ = told(code, cwd=tmp_path, PYTHONPATH=path).split(maxsplit=2)
    assert file.startswith(str(tmp_path)) and library == compiled.LOOK._name
    with open(tmp_path / "pg_mpi/game/look.c", "a", encoding="utf-8") as source:
        source.write("/* edited */\n")
    file, library, why = told(code, cwd=tmp_path, PYTHONPATH=path).split(maxsplit=2)
    assert file.startswith(str(tmp_path)) and library == "None" and "not compiled" in why
