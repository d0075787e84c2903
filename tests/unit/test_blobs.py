"""The blob features of synthetic screens match literal values."""

import numpy as np
import pytest

from pg_mpi.features import blob_inputs, blobs
from pg_mpi.features.blob_inputs import Layout
from pg_mpi.features.blobs import Blob
from pg_mpi.features.encoder import BlobEncoder
from pg_mpi.features.foreground import Scene, runs

CLASSES = np.zeros(256, dtype=np.uint8)
CLASSES[5] = 1


def scene(*fills):
    return Scene(np.stack([np.full((210, 160), fill, dtype=np.uint8) for fill in (0, *fills)]), CLASSES)


def screen(*rectangles):
    """Return a screen of 0 with rectangles of (top row, left column, height, width, colour)."""
    drawn = np.zeros((210, 160), dtype=np.uint8)
    for row, column, height, width, colour in rectangles:
        drawn[row : row + height, column : column + width] = colour
    return drawn


def test_runs_end_at_gaps_colour_classes_and_edges():
    drawn = screen((3, 10, 1, 4, 7), (3, 14, 1, 2, 5), (3, 20, 1, 1, 7), (3, 158, 2, 2, 7), (4, 0, 1, 3, 7))
    assert runs(drawn, scene()) == [
        (3, 10, 13, 0),
        (3, 14, 15, 1),
        (3, 20, 20, 0),
        (3, 158, 159, 0),
        (4, 0, 2, 0),
        (4, 158, 159, 0),
    ]


def test_blobs_bridge_a_one_pixel_gap_of_another_colour():
    drawn = screen((9, 20, 1, 1, 7), (9, 21, 1, 1, 5), (9, 22, 1, 1, 7))
    assert blobs.find(runs(drawn, scene())) == [Blob(18, 42, 1, 3, 0), Blob(18, 42, 1, 1, 1)]


def test_pixels_of_any_background_are_background():
    assert runs(screen((0, 0, 210, 160, 9)), scene(9)) == []
    assert runs(screen((0, 0, 210, 160, 9), (7, 8, 1, 1, 3)), scene(9)) == [(7, 8, 8, 0)]


def test_touching_runs_of_one_colour_class_form_a_blob():
    u_shape = [(10, 10, 4, 2, 7), (10, 20, 4, 2, 7), (14, 10, 1, 12, 7)]  # its arms meet in the last row
    corner = [(40, 40, 1, 1, 7), (41, 41, 1, 1, 7)]  # touch only at a corner
    gaps = [(50, 10, 1, 2, 7), (50, 13, 1, 2, 7), (50, 17, 1, 2, 7)]  # gaps of one pixel and of two
    two_colours = [(60, 60, 2, 2, 7), (62, 60, 2, 2, 5)]
    found = blobs.find(runs(screen(*u_shape, *corner, *gaps, *two_colours), scene()))
    assert found == [
        Blob(24, 31, 5, 12, 0),
        Blob(81, 81, 2, 2, 0),
        Blob(100, 24, 1, 5, 0),
        Blob(100, 35, 1, 2, 0),
        Blob(121, 121, 2, 2, 0),
        Blob(125, 121, 2, 2, 1),
    ]


def test_too_many_runs_or_blobs_give_tiles_only():
    layout = Layout(2)
    rows = np.arange(210)
    dots = np.zeros((210, 160), dtype=np.uint8)
    dots[0:40:2, 0:40:4] = 7  # 200 blobs
    assert blobs.find(runs(dots, scene())) is None
    columns = np.zeros((210, 160), dtype=np.uint8)
    columns[rows[:, None], np.arange(0, 160, 20)] = 7  # 8 blobs of 210 runs each
    assert blobs.find(runs(columns, scene())) is None
    observation = BlobEncoder(scene()).start(columns)
    np.testing.assert_array_equal(observation, sorted(blob_inputs.tiles(runs(columns, scene()), layout)))
    assert len(observation) == 27 * 8


def test_track_matches_the_nearest_blob_of_equal_colour_and_size():
    ball = Blob(100, 100, 4, 2, 0)
    paddle, other = Blob(104, 100, 16, 4, 0), Blob(100, 92, 4, 2, 1)
    (tracked,) = blobs.track([ball], [paddle, other, Blob(112, 84, 4, 2, 0, vy=8, vx=-16)], 210)
    assert tracked == Blob(100, 100, 4, 2, 0, vy=-12, vx=16, ay=-20, ax=32)
    (static,) = blobs.track([ball], [ball], 210)
    assert static == ball and not static.moves
    (new,) = blobs.track([ball], [Blob(100, 142, 4, 2, 0)], 210)  # 21 columns: out of reach
    assert not new.moves


def input_names(found, layout):
    """Convert input numbers to a sorted list of (block, indices)."""
    names = []
    for number in sorted(found):
        name, (first, shape) = max(
            (item for item in layout._blocks.items() if item[1][0] <= number), key=lambda item: item[1][0]
        )
        names.append((name, *map(int, np.unravel_index(number - first, shape))))
    return names


def test_layout_blocks_are_contiguous():
    layout = Layout(3)
    sizes = [np.prod(shape) for _, shape in layout._blocks.values()]
    assert layout.size == sum(sizes)
    assert [first for first, _ in layout._blocks.values()] == [sum(sizes[:k]) for k in range(len(sizes))]
    assert layout.number("rows", 2, 255, 4) + 1 == layout.number("columns", 0, 0, 0)


def test_inputs_of_a_ball_and_a_paddle():
    """The ball moves 8 columns and 3 rows per step. The paddle is 20 columns ahead of it and 10 rows below."""
    ball = Blob(200, 160, 4, 2, 0, vy=6, vx=16)
    paddle = Blob(220, 200, 16, 4, 0, vy=-8, vx=0, ay=-8)
    layout = Layout(1)
    # crossing: 20 / 8 = 2.5 steps (bin 2: 3 or 4), 7.5 rows down by then: 200 + 15 - 220 = -5 half rows (bin 5)
    expected = {
        ("rows", 0, 100, 2),
        ("columns", 0, 80, 3),
        ("moves", 0, 6, 5, 4 + 2, 4 + 3),
        ("offsets", 0, 0, 9 - 5, 9 - 6),
        ("relations", 0, 9 - 5, 9 - 6, 2, 2),
        ("crossings", 0, 0, 1, 2, 16 - 5),
        ("drifting", 0, 0, 1, 2, 16 - 5, 3 - 2, 0),
        ("crossings", 0, 1, 1, 2, 16 + 8),  # in 3.3 steps it is in the paddle's row, 13 half columns away
        ("drifting", 0, 1, 1, 2, 16 + 8, 3, 1),
        ("rows", 0, 110, 3),
        ("columns", 0, 100, 3),
        ("moves", 0, 6, 6, 4 - 2, 4),
        ("offsets", 0, 0, 9 + 5, 9 + 6),
        ("relations", 0, 9 + 5, 9 + 6, 0, 1),
        ("crossings", 0, 1, 0, 2, 16 + 11),  # the paddle is in the ball's row in 2.5 steps
        ("drifting", 0, 1, 0, 2, 16 + 11, 5, 1),
    }
    assert set(input_names(blob_inputs.inputs([ball, paddle], layout), layout)) == expected


def test_blobs_of_equal_velocity_have_no_relations():
    layout = Layout(1)
    formation = [Blob(100, 100 + 20 * k, 4, 4, 0, vx=4) for k in range(4)]
    blocks = {name for name, *_ in input_names(blob_inputs.inputs(formation, layout), layout)}
    assert blocks == {"rows", "columns", "moves"}
    blocks = {
        name for name, *_ in input_names(blob_inputs.inputs([*formation, Blob(180, 20, 4, 4, 0)], layout), layout)
    }
    assert "relations" in blocks


def test_too_many_blob_pairs_have_no_relations():
    layout = Layout(1)
    blobs_in_a_row = [Blob(20 * k, 100, 4, 4, 0, vx=k + 1) for k in range(17)]  # 17 movers x 17 blobs
    assert {name for name, *_ in input_names(blob_inputs.inputs(blobs_in_a_row, layout), layout)} == {
        "rows",
        "columns",
        "moves",
    }
    assert "relations" in {name for name, *_ in input_names(blob_inputs.inputs(blobs_in_a_row[:16], layout), layout)}


@pytest.mark.parametrize(
    ("number", "bin_"), [(0, 9), (1, 10), (-1, 8), (2, 11), (3, 12), (4, 12), (5, 13), (128, 17), (129, 18), (-999, 0)]
)
def test_signed_bin(number, bin_):
    assert blob_inputs.signed_bin(number, blob_inputs.OCTAVES) == bin_


@pytest.mark.parametrize(("steps", "bin_"), [(0.1, 0), (1, 0), (1.1, 1), (2, 1), (2.5, 2), (4, 2), (4.1, 3), (32, 5)])
def test_time_bin(steps, bin_):
    assert blob_inputs.time_bin(steps) == bin_


@pytest.mark.parametrize("state", [b"", b"\xff\xff\xff\xff", b"\1\0\0\0ab", b"\0\0\0\0" + b"\xff" * 4])
def test_malformed_encoder_state_is_refused(state):
    with pytest.raises((ValueError, IndexError)):
        BlobEncoder(scene()).restore(state)
