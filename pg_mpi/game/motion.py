"""Inputs for what moves: from the places of all shapes now, one step ago and two steps ago.

    moves      a place and a step: a cell of the screen, and where a shape there has come from
    relations  a step across and where the shape that made it stands to another, wherever on the screen
    courses    where a moving shape will meet another one's column if it goes straight on and the upper and lower
               border throw it back: how far beside the other, in how many steps, how the other moved in this step,
               and whether that was another way than in the step before

A sum over two planes of pixels can express none of these. The borders are the one thing here that not every game has;
``--features motion`` leaves the courses out.
"""

from bisect import bisect_left

import numpy as np

from pg_mpi.game.shapes import HALF_ROWS, HEIGHT, STRIDE, WIDTH

FEATURES = ("edge", "course", "motion")  # that these inputs are part of
REACH = (5, 10)  # steps of -5 to 5 rows and -10 to 9 columns, the columns in twos
#: Shape of the moves: cells of about 4 rows by 8 columns, down and across; columns and rows of the step.
MOVES = (21, 10, REACH[1], 2 * REACH[0] + 1)
#: Shape of the relations: rows apart in fours, columns apart in eights; columns and rows moved, by sign and size.
RELATIONS = (41, 20, 5, 5)
#: Shape of the courses: rows apart on arrival; to the left or right; steps until then; how the other one moved.
COURSES = (43, 2, 11, 33)
TIMES = (1, 2, 3, 4, 6, 8, 11, 15, 20, 28)  # ends of the bins of steps until arrival
DRIFTS = (1, 4, 8, 13, 18)  # ends of the bins of half rows that the other one moved
DRIFT_REACH = 26  # half rows
CHANGE = 4  # half rows by which the drift at least differs from the one before where the other one slowed or sped up
WEIGHTS = (2, 2, 4)  # the inputs' values: a pixel's is 1, and a small shape has a few of them
MOST_PAIRS = 400  # of shapes now and before; in a crowd only those that moved count, and in a larger one none

_SIZES = [int(np.prod(block)) for block in (MOVES, RELATIONS, COURSES)]
INPUTS = sum(_SIZES)
FIRST = 2 * HEIGHT * WIDTH  # the number of the first of them, after two planes of pixels
FIRST_RELATION = FIRST + _SIZES[0]
FIRST_COURSE = FIRST_RELATION + _SIZES[1]


def groups():
    """Inputs that share a parameter row besides their own: int64 (INPUTS,), -1 for none.

    Relations that differ in the motion alone, and courses that differ in what the other one did.
    """
    relations = np.arange(_SIZES[1]) // (RELATIONS[2] * RELATIONS[3])
    courses = np.arange(_SIZES[2]) // COURSES[3] + relations.max() + 1
    return np.concatenate((np.full(_SIZES[0], -1), relations, courses))


def weights():
    """The value of each active input: float32 (INPUTS,)."""
    return np.repeat(np.array(WEIGHTS, dtype=np.float32), _SIZES)


def inputs(now, before, earlier):
    """The numbers of the active inputs, from the places of all shapes now, one and two steps ago: sorted ints.

    None where too many shapes moved to say which is which.
    """
    if len(now) * len(before) > MOST_PAIRS:
        now, before = now - before, before - now
        if len(now) * len(before) > MOST_PAIRS:
            return None
    found, step_of = [], _STEP.get
    for place in now - before:
        steps = [step for other in before if (step := step_of(place - other))]
        if steps:
            cell, shortest = _CELL[place], min(steps)[0]
            for length, move, motion, speed in steps:
                found.append(cell + move)
                if speed and length == shortest:
                    found += [_APART[place - other] + motion for other in now if other != place]
                    found += _courses(place, *speed, now, before, earlier)
    return sorted(set(found))


def _courses(place, down, across, now, before, earlier):
    """The courses of the shape at ``place``, which moves by these half rows and columns a step: list of ints."""
    found = []
    row, column = divmod(place, STRIDE)
    side = _SIDE if across > 0 else 0
    for other in now:
        time = (other % STRIDE - column) / (2 * across)
        if time > 0:
            course = (row + down * time) % _PERIOD
            if course > _BORDER:
                course = _PERIOD - course
            drift = 0 if other in before else _drift(other, before, earlier)
            beside, arrival = _BESIDE[round(course - other // STRIDE)], bisect_left(TIMES, time)
            found.append(beside + side + arrival * COURSES[3] + drift)
    return found


def _drift(place, before, earlier):
    """The bin of a shape's way in this step, and of its change since the step before; 0 if it came from out of reach.

    The change tells what moves it now: a paddle that starts and one that comes to rest go the same way for a step.
    """
    way = _way(place, before)
    if not way:
        return 0
    change = way - _way(place - way, earlier)
    return _DRIFT[way] + _CHANGED * ((change > _CHANGE) - (change < -_CHANGE))


def _way(place, before):
    """The shortest way straight up or down that a shape has come, as a difference of places.

    0 if none is in reach, or two are as short.
    """
    ways = [way for other in before if (way := place - other) in _DRIFT]
    shortest = min(map(abs, ways), default=0)
    return sum([way for way in ways if abs(way) == shortest])


# -- tables, by place and by difference of places ---------------------------------------------------------

_BORDER = HALF_ROWS - 1
_PERIOD = 2 * _BORDER  # of a shape that goes up and down between the borders
_SIDE = COURSES[2] * COURSES[3]
_CHANGED = 2 * len(DRIFTS) + 1
_CHANGE = CHANGE * STRIDE


def _table(half_rows, columns, value):
    """``value(half rows, columns)`` by place, or by difference of places: a dict."""
    return {y * STRIDE + 2 * x: value(y, x) for y in half_rows for x in columns}


def _listed(table):
    """A table as a list, which is quicker to read than a large dict; a negative key counts from its end.

    Equal numbers are one object, so that they stay in the caches.
    """
    items, same = [0] * (2 * max(table) + 2), {}
    for key, value in table.items():
        items[key] = same.setdefault(value, value)
    return items


def _bin(number, width):
    """Bins as wide as ``width``, the same on both sides of 0."""
    return (abs(number) + width // 2) // width * (1 if number > 0 else -1)


def _sized(number, limit):
    """-2 to 2, by sign and by whether it is beyond the limit."""
    return (number > 0) - (number < 0) + (number > limit) - (number < -limit)


def _cell(half_row, column):
    """The first of a cell's moves."""
    down = _bin(half_row - _BORDER // 2, 8) + MOVES[0] // 2
    return FIRST + (down * MOVES[1] + column // 8) * MOVES[2] * MOVES[3]


def _step(half_rows, columns):
    """A step's length, its number among a cell's moves and among a relation's motions, and itself if it goes across."""
    move = (columns + REACH[1]) // 2 * MOVES[3] + _bin(half_rows, 2) + REACH[0]
    motion = (2 + _sized(columns, 3)) * RELATIONS[3] + 2 + _sized(half_rows, 4)
    return abs(half_rows) + 2 * abs(columns), move, motion, columns and (half_rows, columns)


def _apart(half_rows, columns):
    """The first relation of two shapes so far apart."""
    place = (_bin(half_rows, 8) + RELATIONS[0] // 2) * RELATIONS[1] + (columns + WIDTH) // 8
    return FIRST_RELATION + place * RELATIONS[2] * RELATIONS[3]


def _beside(half_rows):
    """The course to the left, at once and beside a shape that stood still: single rows to 12, then eight together."""
    size = _bin(abs(half_rows), 2) if abs(half_rows) <= 24 else 12 + (abs(half_rows) - 8) // 16
    row = COURSES[0] // 2 + (size if half_rows > 0 else -size)
    return FIRST_COURSE + row * COURSES[1] * _SIDE + COURSES[3] // 2


_CELL = _listed(_table(range(HALF_ROWS), range(WIDTH), _cell))
_STEP = _table(range(-2 * REACH[0], 2 * REACH[0] + 1), range(-REACH[1], REACH[1]), _step)
_APART = _listed(_table(range(-_BORDER, HALF_ROWS), range(1 - WIDTH, WIDTH), _apart))
_BESIDE = [_beside(half_rows) for half_rows in (*range(HALF_ROWS), *range(-_BORDER, 0))]
_DRIFT = {
    rows * STRIDE: bisect_left(DRIFTS, abs(rows)) * (1 if rows > 0 else -1)
    for rows in range(-DRIFT_REACH, DRIFT_REACH + 1)
}
