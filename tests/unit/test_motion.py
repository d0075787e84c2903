"""Moves, relations and courses of shapes: by hand, and against a slow search from the definition."""

import itertools

import numpy as np
import pytest

from pg_mpi.agent.tying import pixel_tie, with_own_rows
from pg_mpi.game import motion
from pg_mpi.game.eye import PIXELS, Eye
from pg_mpi.game.features import FrameEncoder
from pg_mpi.game.motion import COURSES, MOVES, REACH, RELATIONS
from pg_mpi.game.shapes import HEIGHT, WIDTH

BACKGROUND = np.zeros((1, HEIGHT, WIDTH), dtype=np.uint8)


def screen(*rectangles):
    """A 210 x 160 screen with rectangles (row, column, height, width) of the 80 x 80 positions."""
    field = np.zeros((HEIGHT, WIDTH), dtype=np.uint8)
    for y, x, height, width in rectangles:
        field[y : y + height, x : x + width] = 7
    whole = np.zeros((210, 160), dtype=np.uint8)
    whole[35:195:2, ::2] = field
    return whole


def seen(before, now, features="course", earlier=None):
    """The observation after two screens, or three, and its moves, relations and courses as lists of tuples."""
    encoder = FrameEncoder(features, Eye(BACKGROUND))
    encoder.start(before if earlier is None else earlier)
    if earlier is not None:
        encoder.step(before)
    observation = encoder.step(now)
    extra, parts = observation[observation >= 2 * PIXELS] - 2 * PIXELS, []
    for shape in (MOVES, RELATIONS, COURSES):
        size = int(np.prod(shape))
        block, extra = extra[extra < size], extra[extra >= size] - size
        parts.append([tuple(map(int, number)) for number in zip(*np.unravel_index(block, shape))])
    return observation, *parts


def even(number, width):
    """The bin of a number, with bins of this width that are the same on both sides of 0."""
    return int(np.sign(number)) * ((abs(number) + width // 2) // width)


def searched(before, now, earlier):
    """(moves, relations, courses) by a search over all positions of the screens, from the definition."""

    def shapes_of(whole):
        active = np.pad(whole[35:195:2, ::2] != 0, 1)
        edge = active[1:-1, 1:-1] & ~active[1:-1, :-2]
        found = set()
        for x in range(WIDTH):
            rows = np.flatnonzero(edge[:, x])
            found |= {
                (int(run[0] + run[-1]), x) for run in np.split(rows, np.flatnonzero(np.diff(rows) != 1) + 1) if len(run)
            }
        return found

    once, was, there = shapes_of(earlier), shapes_of(before), shapes_of(now)
    moves, relations, courses = set(), set(), set()
    for y, x in there - was:
        steps = [(y - v, x - u) for v, u in was if abs(y - v) <= 2 * REACH[0] and -REACH[1] <= x - u < REACH[1]]
        cell = even(y - 79, 8) + 10, x // 8
        moves |= {(*cell, (dx + REACH[1]) // 2, even(dy, 2) + REACH[0]) for dy, dx in steps}
        length = min((abs(dy) + 2 * abs(dx) for dy, dx in steps), default=None)
        for (dy, dx), (v, u) in itertools.product(steps, there - {(y, x)}):
            if abs(dy) + 2 * abs(dx) == length and dx:
                sized = int(np.sign(dy)) * (1 + (abs(dy) > 4))
                fast = int(np.sign(dx)) * (1 + (abs(dx) > 3))
                relations.add((20 + even(y - v, 8), (x - u + 80) // 8, 2 + fast, 2 + sized))
                if (u - x) * dx > 0:
                    courses.add(course(y, dy, (u - x) / dx, dx, (v, u), was, once))
    return sorted(moves), sorted(relations), sorted(courses)


def way_of(shape, was):
    """The way straight up or down that a shape has come, in half rows."""
    return min((shape[0] - v for v, u in was if u == shape[1] and abs(shape[0] - v) <= 26), key=abs, default=0)


def course(y, dy, time, dx, other, was, once):
    """The course of a shape in half row ``y``, walked in small steps; the other one moved straight, or not at all."""
    parts = 512
    for _ in range(round(time * parts)):
        if not 0 <= y + dy / parts <= 158:
            dy = -dy
        y += dy / parts
    apart = round(y - other[0])
    size = (abs(apart) + 1) // 2 if abs(apart) <= 24 else 12 + (abs(apart) - 8) // 16
    way = way_of(other, was)
    drift = sum(abs(way) > limit for limit in (1, 4, 8, 13, 18))
    change = way - way_of((other[0] - way, other[1]), once) if way else 0
    turned = int(np.sign(change)) * (abs(change) > 4)
    arrival = sum(time > limit for limit in (1, 2, 3, 4, 6, 8, 11, 15, 20, 28))
    return 21 + int(np.sign(apart)) * size, int(dx > 0), arrival, 16 + 11 * turned + int(np.sign(way)) * drift


def test_a_ball_by_hand():
    """Two rows high, from (20, 40) to (23, 44). Its middle is at 23.5, 16 rows above the field's: 32 half rows."""
    observation, moves, relations, courses = seen(screen((20, 40, 2, 1)), screen((23, 44, 2, 1)))
    assert moves == [(10 - 32 // 8, 5, 7, 8)] and relations == courses == []
    np.testing.assert_array_equal(observation[:2], [23 * WIDTH + 44, 24 * WIDTH + 44])
    assert len(observation) == 2 + len(moves), "what moved says where it was"


def test_a_ball_and_a_paddle_by_hand():
    """The ball's middle at (23.5, 44), down by 3 and right by 4; a paddle that stands, middle (33.5, 70): ten rows, or
    20 half rows, below it, and 26 columns to the right. The ball gets there in 6.5 steps, 19.5 rows further down:
    9.5 rows, or 19 half rows, below the paddle's middle."""
    ball, paddle = ((20, 40, 2, 1), (23, 44, 2, 1)), (30, 70, 8, 2)
    _, _, relations, courses = seen(screen(ball[0], paddle), screen(ball[1], paddle))
    assert relations == [(20 - 24 // 8, 54 // 8, 4, 4)]
    assert courses == [(21 + 10, 1, 5, 16)]


def test_a_course_by_the_border_to_a_paddle_that_moves():
    """From half row 149, down by 6 half rows and left by 2 columns a step, to a paddle 40 columns away: 20 steps, 120
    half rows, thrown back at 158, so 158 - (149 + 120 - 158) = 47. The paddle came up by 3 rows and is at 47; it stood
    before, or came up all the time, or came up faster."""
    before, now = screen((71, 52, 2, 1), (23, 10, 8, 2)), screen((74, 50, 2, 1), (20, 10, 8, 2))
    for rows, changed in ((0, -1), (2, 0), (3, 0), (5, 0), (6, 1)):
        earlier = screen((68, 54, 2, 1), (23 + rows, 10, 8, 2))
        assert seen(before, now, earlier=earlier)[3] == [(21, 0, 8, 16 + 11 * changed - 2)]
    assert seen(before, now)[3] == [(21, 0, 8, 16 - 11 - 2)], "a game begins at rest"


def test_out_of_reach_is_no_move():
    assert seen(screen((20, 40, 2, 1)), screen((26, 40, 2, 1)))[1] == []
    assert seen(screen((20, 40, 2, 1)), screen((20, 50, 2, 1)))[1] == []
    assert seen(screen((20, 79, 2, 1)), screen((21, 0, 2, 1)))[1] == [], "the right border does not touch the left one"


@pytest.mark.parametrize("seed", range(20))
def test_random_shapes_equal_the_search(seed):
    rng = np.random.default_rng(seed)

    def shape():
        return rng.integers(70), rng.integers(78), rng.integers(1, 10), rng.integers(1, 3)

    first = [shape() for _ in range(4)]
    sideways = rng.integers(-4, 5, 4) * (rng.random(4) < 0.5)
    moved = [
        (min(70, max(0, y + rng.integers(-5, 6))), min(77, max(0, x + dx)), h, w)
        for (y, x, h, w), dx in zip(first, sideways)
    ]
    earlier = screen(*[(min(70, max(0, y + rng.integers(-5, 6))), x, h, w) for y, x, h, w in first])
    before, now = screen(*first), screen(*moved)
    observation, *found = seen(before, now, earlier=earlier)
    assert found == list(searched(before, now, earlier))
    assert seen(before, now, "motion", earlier)[1:] == (*found[:2], [])

    edges, *same = seen(before, now, "edge", earlier)
    assert same == found
    active = np.pad(now[35:195:2, ::2] != 0, ((0, 0), (1, 0)))
    left_ends = np.flatnonzero(active[:, 1:] & ~active[:, :-1])
    np.testing.assert_array_equal(edges, np.append(left_ends, observation[observation >= 2 * PIXELS]))


def test_a_run_at_the_right_border_does_not_go_on_in_the_next_row():
    both = screen((10, 78, 1, 2), (11, 0, 1, 3))
    assert seen(both, both, "edge")[0].tolist() == [10 * WIDTH + 78, 11 * WIDTH]


def test_a_crowd_counts_what_moved_and_a_change_of_scene_nothing():
    crowd = [(y, x, 2, 2) for y in range(0, 80, 8) for x in range(0, 80, 8)]
    one_moved = [(1, 0, 2, 2), *crowd[1:]]
    assert seen(screen(*crowd), screen(*one_moved))[1] == [(even(3 - 79, 8) + 10, 0, 5, 6)]
    all_moved = [(y + 1, x, h, w) for y, x, h, w in crowd]
    observation, *moved = seen(screen(*crowd), screen(*all_moved))
    assert moved == [[], [], []]
    np.testing.assert_array_equal(observation[:400], np.flatnonzero(screen(*all_moved)[35:195:2, ::2]))
    np.testing.assert_array_equal(observation[400:], PIXELS + np.flatnonzero(screen(*crowd)[35:195:2, ::2]))
    np.testing.assert_array_equal(seen(screen(*crowd), screen(*all_moved), "edge")[0], observation)


def test_every_such_input_has_a_row_of_its_own_and_its_group_one_more():
    plain = pixel_tie((HEIGHT, WIDTH), False, "only")
    tie = with_own_rows(plain, np.array([-1, 0, 1, 0]), np.array([2, 2, 2, 3]))
    assert tie.shape == (plain.shape[0] + 4, plain.shape[1] + 6) and tie.dtype == np.float32
    assert (tie[: plain.shape[0], : plain.shape[1]] != plain).nnz == 0
    block = tie[plain.shape[0] :, plain.shape[1] :].toarray()
    np.testing.assert_array_equal(
        block, [[2, 0, 0, 0, 0, 0], [0, 2, 0, 0, 2, 0], [0, 0, 2, 0, 0, 2], [0, 0, 0, 3, 3, 0]]
    )


def test_groups_hold_the_relations_of_all_motions_and_the_courses_to_whatever_moved():
    groups, cuts = motion.groups(), np.cumsum([int(np.prod(MOVES)), int(np.prod(RELATIONS))])
    moves, relations, courses = np.split(groups, cuts)
    assert (moves == -1).all()
    for block, shape, shared in ((relations, RELATIONS, 2), (courses, COURSES, 3)):
        rows = block.reshape(*shape[:shared], -1)
        assert (rows == rows[..., :1]).all() and len(set(block.tolist())) == np.prod(shape[:shared])
    assert relations.max() < courses.min() and groups.max() + 1 == len(set(groups.tolist())) - 1
    assert motion.weights().tolist() == [2] * cuts[1] + [4] * int(np.prod(COURSES))


@pytest.mark.parametrize("kind", ["course", "edge"])
def test_motion_goes_on_from_a_saved_state(kind):
    encoder, other = FrameEncoder(kind, Eye(BACKGROUND)), FrameEncoder(kind, Eye(BACKGROUND))
    screens = [screen((20 + i, 40 + 2 * i, 2, 1), (40 + i * i, 70, 8, 2)) for i in range(5)]
    encoder.start(screens[0])
    for each in screens[1:3]:
        now = encoder.step(each)
    np.testing.assert_array_equal(other.restore(encoder.state()), now)
    for each in screens[3:]:
        np.testing.assert_array_equal(other.step(each), encoder.step(each))
