"""encoder.c gives the same observations as the Python encoder: on games, random screens and restored states."""

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

pytestmark = pytest.mark.skipif(not (native_encoder.LIBRARY or shutil.which("cc")), reason="no C compiler")
SCENE = Scene(np.zeros((1, 210, 160), np.uint8), np.zeros(256, np.uint8))


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
displacement = st.tuples(st.integers(-28, 28), st.integers(-22, 22))


def draw_screen(shapes):
    screen = np.zeros((HEIGHT, WIDTH), dtype=np.uint8)
    for y, x, height, width, colour in shapes:
        screen[max(y, 0) : max(y + height, 0), max(x, 0) : max(x + width, 0)] = colour
    return screen


def make_encoders(coloured=True):
    scene = Scene(BACKGROUNDS, CLASSES if coloured else np.zeros(256, dtype=np.uint8))
    return BlobEncoder(scene), NativeEncoder(scene)


def assert_equal(one, other, method, screens):
    for each in screens:
        expected, native = getattr(one, method)(each), getattr(other, method)(each)
        assert expected.dtype == native.dtype == np.int64
        np.testing.assert_array_equal(native, expected)
        assert one.blobs == other.blobs and one.state() == other.state()


def test_native_encoder_is_compiled():
    """The other tests of this file need the compiled library."""
    assert native_encoder.LIBRARY is not None


@pytest.mark.parametrize("name", ["Pong", "MsPacman", "Asteroids", "SpaceInvaders", "Enduro"])
def test_equal_on_games(name):
    """MsPacman and Asteroids have four colour classes. Enduro scrolls, with more runs than the maximum."""
    env_id, rng = f"ALE/{name}-v5", np.random.default_rng(4)
    scene, _ = find_scene(env_id)
    game, one, other = AtariGame(env_id, rng), BlobEncoder(scene), NativeEncoder(scene)
    assert_equal(one, other, "start", [game.screen])
    for _ in range(250):
        if game.over():
            game.reset()
            assert_equal(one, other, "start", [game.screen])
        game.step(game.actions[rng.integers(len(game.actions))])
        assert_equal(one, other, "step", [game.screen])


@settings(deadline=None, max_examples=100, derandomize=True)
@given(
    st.booleans(),
    st.lists(rectangles, max_size=12),
    st.lists(st.lists(displacement, min_size=12, max_size=12), min_size=1, max_size=4),
    st.integers(0, 400),
)
def test_equal_on_random_screens(coloured, shapes, steps, noise):
    """Shapes move, touch, turn and leave the screen, with up to 400 single pixels and two backgrounds."""
    screens, rng = [draw_screen(shapes)], np.random.default_rng(noise)
    for displacements in steps:
        shapes = [(y + down, x + across, *rest) for (y, x, *rest), (down, across) in zip(shapes, displacements)]
        screens.append(draw_screen(shapes))
    for screen in screens[1:]:
        screen.ravel()[rng.integers(0, screen.size, noise)] = rng.choice([3, 5, 9], noise)
    one, other = make_encoders(coloured)
    assert_equal(one, other, "start", screens[:1])
    assert_equal(one, other, "step", screens[1:])


@pytest.mark.parametrize("density", [0.0, 0.01, 0.1, 0.5, 1.0])
def test_equal_on_full_and_empty_screens(density):
    rng = np.random.default_rng(1)
    one, other = make_encoders()
    screens = [np.where(rng.random((HEIGHT, WIDTH)) < density, 3, 0).astype(np.uint8) for _ in range(4)]
    assert_equal(one, other, "start", screens[:1])
    assert_equal(one, other, "step", screens[1:])


def test_each_encoder_restores_the_state_of_the_other():
    rng = np.random.default_rng(2)
    game, (scene, _) = AtariGame("ALE/Pong-v5", rng), find_scene("ALE/Pong-v5")
    one, other = BlobEncoder(scene), NativeEncoder(scene)
    assert_equal(one, other, "start", [game.screen])
    for step in range(300):
        game.step(game.actions[rng.integers(6)])
        assert_equal(one, other, "step", [game.screen])
        if step % 50 == 0:
            state, one, other = one.state(), NativeEncoder(scene), BlobEncoder(scene)
            np.testing.assert_array_equal(one.restore(state), other.restore(state))
            one, other = other, one


@pytest.mark.parametrize(
    "bad", [np.zeros((194, 160), np.uint8), np.zeros((210, 320), np.uint8)[:, ::2], np.zeros((210, 160), np.int32)]
)
def test_screen_of_wrong_shape_or_type_is_refused(bad):
    _, other = make_encoders()
    with pytest.raises(ValueError, match="a screen must be"):
        other.start(bad)


def python_output(code, cwd=None, **environment):
    """Run code in a new Python process and return its output."""
    command = [sys.executable, "-c", f"from pg_mpi.features import native_encoder as native; {code}"]
    result = subprocess.run(
        command, env={**os.environ, **environment}, cwd=cwd, capture_output=True, text=True, timeout=60
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def test_environment_variable_selects_numpy():
    assert python_output("print(native.LIBRARY, native.WHY_NUMPY)", PG_MPI_NUMPY="1") == "None PG_MPI_NUMPY is set"


def test_copied_package_loads_the_installed_library_of_the_same_source(tmp_path):
    """A copy of the package loads the installed library. After an edit of the copy's encoder.c it uses numpy."""
    shutil.copytree(ROOT / "pg_mpi", tmp_path / "pg_mpi", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    code = "print(native.__file__, native.LIBRARY and native.LIBRARY._name, native.WHY_NUMPY)"
    path = os.pathsep.join((str(tmp_path), str(ROOT)))
    file, library, _ = python_output(code, cwd=tmp_path, PYTHONPATH=path).split(maxsplit=2)
    assert file.startswith(str(tmp_path)) and library == native_encoder.LIBRARY._name
    with open(tmp_path / "pg_mpi/features/encoder.c", "a", encoding="utf-8") as source:
        source.write("/* edited */\n")
    file, library, why = python_output(code, cwd=tmp_path, PYTHONPATH=path).split(maxsplit=2)
    assert file.startswith(str(tmp_path)) and library == "None" and "not compiled" in why


def test_encoders_agree_at_the_limits_of_movers_and_runs():
    one, other = BlobEncoder(SCENE), NativeEncoder(SCENE)
    for moving in (16, 17):
        for method, shift in (("start", 0), ("step", 1)):
            drawn = np.zeros((210, 160), np.uint8)
            for k in range(moving):
                drawn[10 * k : 10 * k + 2, 20 + shift * (1 + k % 5) : 24 + shift * (1 + k % 5)] = 7
            np.testing.assert_array_equal(getattr(other, method)(drawn), getattr(one, method)(drawn))
        assert len(one.blobs) == moving and all(blob.moves for blob in one.blobs)
    for runs in (1023, 1024, 1025):
        drawn = np.zeros((210, 160), np.uint8)
        cells = [(row, column) for row in range(210) for column in range(0, 80, 16)][:runs]  # five columns of blobs
        for row, column in cells:
            drawn[row, column] = 7
        np.testing.assert_array_equal(other.start(drawn), one.start(drawn))
        assert bool(one.blobs) == (runs <= 1024)
