"""Motion features: what a moving shape becomes, by hand and against a slow search; and in the mirror."""

import itertools

import numpy as np
import pytest

from pg_mpi.agent.tying import moves_upside_down, pixel_tie, upside_down, with_moves
from pg_mpi.game.features import CELL, HEIGHT, MOVES, PIXELS, REACH, WIDTH, FrameEncoder

BACKGROUND = np.zeros((1, HEIGHT, WIDTH), dtype=np.uint8)


def screen(*shapes):
    """A 210 x 160 screen with rectangles (row, column, height, width) of the 80 x 80 positions."""
    field = np.zeros((HEIGHT, WIDTH), dtype=np.uint8)
    for y, x, height, width in shapes:
        field[y : y + height, x : x + width] = 7
    whole = np.zeros((210, 160), dtype=np.uint8)
    whole[35:195:2, ::2] = field
    return whole


def seen(before, now):
    """The moves of the observation after two screens, as (cell down, cell across, columns, rows) tuples."""
    encoder = FrameEncoder("motion", BACKGROUND)
    encoder.start(before)
    observation = encoder.step(now)
    moves = observation[observation >= 2 * PIXELS] - 2 * PIXELS
    return [tuple(int(i) for i in move) for move in zip(*np.unravel_index(moves, MOVES))], observation


def searched(before, now):
    """The same by a search over all positions of both screens, from the definition."""

    def ends(whole):
        active = np.pad(whole[35:195:2, ::2] != 0, 1)
        edge = active[1:-1, 1:-1] & ~active[1:-1, :-2]
        padded = np.pad(edge, ((1, 1), (0, 0)))
        return edge & ~padded[:-2], edge & ~padded[2:]

    found = set()
    for was, now_there in zip(ends(before), ends(now)):
        for (y, x), (v, u) in itertools.product(np.argwhere(now_there).tolist(), np.argwhere(was).tolist()):
            if abs(y - v) <= REACH[0] and -REACH[1] <= x - u < REACH[1]:
                found.add((y // CELL[0], x // CELL[1], (x - u + REACH[1]) // 2, y - v + REACH[0]))
    return sorted(found)


def test_a_ball_by_hand():
    """Two rows high, from (20, 40) to (23, 44): its upper end lies in cell (5, 5), its lower one, row 24, in (6, 5)."""
    moves, observation = seen(screen((20, 40, 2, 1)), screen((23, 44, 2, 1)))
    assert moves == [(5, 5, 7, 8), (6, 5, 7, 8)]
    np.testing.assert_array_equal(observation[:2], [23 * WIDTH + 44, 24 * WIDTH + 44])
    np.testing.assert_array_equal(observation[2:4], PIXELS + np.array([20 * WIDTH + 40, 21 * WIDTH + 40]))


def test_out_of_reach_is_no_move():
    assert seen(screen((20, 40, 2, 1)), screen((26, 40, 2, 1)))[0] == []
    assert seen(screen((20, 40, 2, 1)), screen((20, 50, 2, 1)))[0] == []
    assert seen(screen((20, 79, 2, 1)), screen((21, 0, 2, 1)))[0] == [], "the right border does not touch the left one"


@pytest.mark.parametrize("seed", range(20))
def test_random_shapes_equal_the_search_and_their_mirror(seed):
    rng = np.random.default_rng(seed)

    def shape():
        return rng.integers(70), rng.integers(78), rng.integers(1, 10), rng.integers(1, 3)

    shapes = [shape() for _ in range(4)]
    moved = [(min(70, max(0, y + rng.integers(-5, 6))), x, h, w) for y, x, h, w in shapes]
    before, now = screen(*shapes), screen(*moved)
    moves, observation = seen(before, now)
    assert moves == searched(before, now)
    flipped = np.zeros_like(before), np.zeros_like(now)
    for whole, source in zip(flipped, (before, now)):
        whole[35:195:2] = source[35:195:2][::-1]
    turned = np.append(upside_down((HEIGHT, WIDTH)), 2 * PIXELS + moves_upside_down(MOVES))
    np.testing.assert_array_equal(np.sort(turned[observation]), np.sort(seen(*flipped)[1]))


def test_a_crowd_counts_what_moved_and_a_change_of_scene_nothing():
    crowd = [(y, x, 2, 2) for y in range(0, 80, 8) for x in range(0, 80, 8)]
    one_moved = [(1, 0, 2, 2), *crowd[1:]]
    assert seen(screen(*crowd), screen(*one_moved))[0] == [(0, 0, 5, 6)]
    all_moved = [(y + 1, x, h, w) for y, x, h, w in crowd]
    assert seen(screen(*crowd), screen(*all_moved))[0] == []


def test_every_move_has_a_row_of_its_own():
    tie = with_moves(pixel_tie((HEIGHT, WIDTH), False, "only"), MOVES)
    plain = pixel_tie((HEIGHT, WIDTH), False, "only")
    count = int(np.prod(MOVES))
    assert tie.shape == (plain.shape[0] + count, plain.shape[1] + count) and tie.dtype == np.float32
    assert (tie[: plain.shape[0], : plain.shape[1]] != plain).nnz == 0
    block = tie[plain.shape[0] :, plain.shape[1] :].tocoo()
    np.testing.assert_array_equal(block.row, block.col)
    assert tie.nnz == plain.nnz + count


def test_motion_goes_on_from_a_saved_state():
    encoder, other = FrameEncoder("motion", BACKGROUND), FrameEncoder("motion", BACKGROUND)
    first, second, third = (screen((20 + i, 40 + 2 * i, 2, 1), (50, 70, 8, 2)) for i in range(3))
    encoder.start(first)
    now = encoder.step(second)
    np.testing.assert_array_equal(other.restore(encoder.state()), now)
    np.testing.assert_array_equal(other.step(third), encoder.step(third))
