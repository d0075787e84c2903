"""encoder.c against the Python that defines it: the same numbers, on games, on made-up screens and across a restart."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pg_mpi.env.atari import AtariGame
from pg_mpi.env.calibration import find_scene
from pg_mpi.features import native_encoder
from pg_mpi.features.encoder import BlobEncoder
from pg_mpi.features.foreground import Scene
from pg_mpi.features.native_encoder import NativeEncoder

ROOT = Path(__file__).parents[2]
HEIGHT, WIDTH = 210, 160
BACKGROUNDS = np.stack([np.zeros((HEIGHT, WIDTH), np.uint8), np.full((HEIGHT, WIDTH), 9, np.uint8)])
CLASSES = np.zeros(256, dtype=np.uint8)
CLASSES[[3, 5]] = 1, 2

rectangles = st.tuples(
    st.integers(0, HEIGHT - 1),
    st.integers(0, WIDTH - 1),
    st.integers(1, 40),
    st.integers(1, 20),
    st.sampled_from([1, 3, 5]),
)
moved = st.tuples(st.integers(-28, 28), st.integers(-22, 22))


def drawn(shapes):
    screen = np.zeros((HEIGHT, WIDTH), dtype=np.uint8)
    for y, x, height, width, colour in shapes:
        screen[max(y, 0) : max(y + height, 0), max(x, 0) : max(x + width, 0)] = colour
    return screen


def both(coloured=True):
    scene = Scene(BACKGROUNDS, CLASSES if coloured else np.zeros(256, dtype=np.uint8))
    return BlobEncoder(scene), NativeEncoder(scene)


def same(one, other, verb, screens):
    for each in screens:
        defined, native = getattr(one, verb)(each), getattr(other, verb)(each)
        assert defined.dtype == native.dtype == np.int64
        np.testing.assert_array_equal(native, defined)
        assert one.blobs == other.blobs and one.state() == other.state()


def test_it_was_compiled():
    """Here, where the tests run, there is a compiler; or all below would try nothing."""
    assert native_encoder.LIBRARY is not None


@pytest.mark.parametrize("name", ["Pong", "MsPacman", "Asteroids", "SpaceInvaders", "Enduro"])
def test_the_same_on_games(name):
    """MsPacman and Asteroids have four classes of colours; Enduro scrolls, on more runs than are looked at."""
    env_id, rng = f"ALE/{name}-v5", np.random.default_rng(4)
    scene, _ = find_scene(env_id)
    game, one, other = AtariGame(env_id, rng), BlobEncoder(scene), NativeEncoder(scene)
    same(one, other, "start", [game.screen])
    for _ in range(500):
        if game.over():
            game.reset()
            same(one, other, "start", [game.screen])
        game.step(game.actions[rng.integers(len(game.actions))])
        same(one, other, "step", [game.screen])


@settings(deadline=None, max_examples=150, derandomize=True)
@given(
    st.booleans(),
    st.lists(rectangles, max_size=12),
    st.lists(st.lists(moved, min_size=12, max_size=12), min_size=1, max_size=4),
    st.integers(0, 400),
)
def test_the_same_on_made_up_screens(coloured, shapes, steps, noise):
    """Shapes that move, touch, leave the screen and turn; up to some hundred single pixels; two backgrounds."""
    screens, rng = [drawn(shapes)], np.random.default_rng(noise)
    for ways in steps:
        shapes = [(y + down, x + across, *rest) for (y, x, *rest), (down, across) in zip(shapes, ways)]
        screens.append(drawn(shapes))
    for screen in screens[1:]:
        screen.ravel()[rng.integers(0, screen.size, noise)] = rng.choice([3, 5, 9], noise)
    one, other = both(coloured)
    same(one, other, "start", screens[:1])
    same(one, other, "step", screens[1:])


@pytest.mark.parametrize("share", [0.0, 0.01, 0.1, 0.5, 1.0])
def test_the_same_on_full_and_empty_screens(share):
    rng = np.random.default_rng(1)
    one, other = both()
    screens = [np.where(rng.random((HEIGHT, WIDTH)) < share, 3, 0).astype(np.uint8) for _ in range(4)]
    same(one, other, "start", screens[:1])
    same(one, other, "step", screens[1:])


def test_either_continues_from_the_others_state():
    rng = np.random.default_rng(2)
    game, (scene, _) = AtariGame("ALE/Pong-v5", rng), find_scene("ALE/Pong-v5")
    one, other = BlobEncoder(scene), NativeEncoder(scene)
    same(one, other, "start", [game.screen])
    for step in range(300):
        game.step(game.actions[rng.integers(6)])
        same(one, other, "step", [game.screen])
        if step % 50 == 0:
            seen, one, other = one.state(), NativeEncoder(scene), BlobEncoder(scene)
            np.testing.assert_array_equal(one.restore(seen), other.restore(seen))
            one, other = other, one


@pytest.mark.parametrize(
    "bad", [np.zeros((194, 160), np.uint8), np.zeros((210, 320), np.uint8)[:, ::2], np.zeros((210, 160), np.int32)]
)
def test_a_screen_of_another_kind_is_refused(bad):
    _, other = both()
    with pytest.raises(ValueError, match="a screen must be"):
        other.start(bad)


def told(code, cwd=None, **environment):
    """What a fresh Python prints."""
    words = [sys.executable, "-c", f"from pg_mpi.features import native_encoder as native; {code}"]
    done = subprocess.run(words, env={**os.environ, **environment}, cwd=cwd, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_numpy_does_it_where_it_is_asked_to():
    assert told("print(native.LIBRARY, native.WHY_NUMPY)", PG_MPI_NUMPY="1") == "None PG_MPI_NUMPY is set"


def test_a_copy_of_the_package_finds_the_library_that_was_installed_but_no_other_one(tmp_path):
    """As where a clone is installed as a copy and run from its own folder; and then its encoder.c is edited."""
    shutil.copytree(ROOT / "pg_mpi", tmp_path / "pg_mpi", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    code = "print(native.__file__, native.LIBRARY and native.LIBRARY._name, native.WHY_NUMPY)"
    path = os.pathsep.join((str(tmp_path), str(ROOT)))
    file, library, _ = told(code, cwd=tmp_path, PYTHONPATH=path).split(maxsplit=2)
    assert file.startswith(str(tmp_path)) and library == native_encoder.LIBRARY._name
    with open(tmp_path / "pg_mpi/features/encoder.c", "a", encoding="utf-8") as source:
        source.write("/* edited */\n")
    file, library, why = told(code, cwd=tmp_path, PYTHONPATH=path).split(maxsplit=2)
    assert file.startswith(str(tmp_path)) and library == "None" and "not compiled" in why
