"""What moved, and where it is to other shapes: inputs from the left edges of shapes, beside the pixels.

A shape is a left edge: active pixels one above the other, each without an active pixel to its left. Its place is its
column and its middle. For each shape whose place was not there one step ago:

    moves      for each shape within reach one step ago: where this one is now (a cell), and the step between the two.
               A small object's own step, or how it stands to a near neighbour.
    relations  for each other shape: how far above or below and left or right of that one it is, and which way it
               moved itself, by the nearest shape one step ago.

So one input stands for a place and a velocity together, or for two shapes' places relative to each other and a
velocity, wherever on the screen they are. A sum over two planes of pixels cannot express either.

Plain Python on sets of ints: shapes are few, and after an emulator step this is warm where numpy's small calls are
cold.
"""

import numpy as np

HEIGHT = WIDTH = 80

REACH = (5, 10)  # steps of -5 to 5 rows and -10 to 9 columns, the columns in twos
#: Shape of the moves: cells of about 4 rows by 8 columns, down and across; columns and rows of the step.
MOVES = (21, 10, REACH[1], 2 * REACH[0] + 1)
#: Shape of the relations: rows apart in fours, columns apart in eights; columns and rows moved, by sign and size.
RELATIONS = (41, 20, 3, 5)
MOST_PAIRS = 400  # of shapes now and before; in a crowd only those that moved count, and in a larger one none
_MOVES, _RELATIONS = int(np.prod(MOVES)), int(np.prod(RELATIONS))
INPUTS = _MOVES + _RELATIONS
FIRST = 2 * HEIGHT * WIDTH  # the number of the first of them, after two planes of pixels


def upside_down():
    """The permutation of all inputs of this module that turns the screen upside down: int64 (INPUTS,)."""
    moves = np.arange(_MOVES).reshape(MOVES)[::-1, :, :, ::-1]
    relations = np.arange(_RELATIONS).reshape(RELATIONS)[::-1, :, :, ::-1]
    return np.concatenate((moves.ravel(), _MOVES + relations.ravel()))


def groups():
    """Relations that differ in the motion alone are a group: int64 (INPUTS,), -1 for the moves."""
    relations = np.arange(_RELATIONS) // (RELATIONS[2] * RELATIONS[3])
    return np.concatenate((np.full(_MOVES, -1), relations))


def shapes(pixels):
    """The places of all shapes among sorted active pixels: a set of ints, (upper + lower row) * 512 + 2 * column."""
    edges, before = {}, -2  # edges: upper end by lower end, both as pixels
    for pixel in pixels.tolist():
        if pixel != before + 1 or pixel % WIDTH == 0:
            edges[pixel] = edges.pop(pixel - WIDTH, pixel)
        before = pixel
    return {_PLACE[lower] + _PLACE[upper] for lower, upper in edges.items()}


def inputs(now, before):
    """The numbers of the active inputs, from the places of all shapes now and one step ago: a set of ints."""
    if len(now) * len(before) > MOST_PAIRS:
        now, before = now - before, before - now
        if len(now) * len(before) > MOST_PAIRS:
            return set()
    found = set()
    for place in now - before:
        steps = [place - other for other in before if place - other in _MOVE]
        if steps:
            cell, shortest = _CELL[place], min([_LENGTH[step] for step in steps])
            found.update([cell + _MOVE[step] for step in steps])
            for motion in {_MOTION[step] for step in steps if _LENGTH[step] == shortest}:
                found.update([_relation(place - other) + motion for other in now if other != place])
    return found


# -- tables, by place and by difference of places ---------------------------------------------------------

_STRIDE = 512  # so wide that the difference of two places tells rows and columns
_PLACE = [y * _STRIDE + x for y in range(HEIGHT) for x in range(WIDTH)]


def _table(half_rows, columns, value):
    """``value(half rows, columns)`` by place, or by difference of places."""
    return {y * _STRIDE + 2 * x: value(y, x) for y in half_rows for x in columns}


def _bin(number, width):
    """Bins as wide as ``width``, the same on both sides of 0."""
    return (abs(number) + width // 2) // width * (1 if number > 0 else -1)


def _sized(half_rows):
    """0 to 4: up by more than two rows, up, level, down, down by more than two rows."""
    return 2 + (half_rows > 0) - (half_rows < 0) + (half_rows > 4) - (half_rows < -4)


_MIDDLE = HEIGHT - 1  # in half rows
_CELL = _table(
    range(2 * HEIGHT - 1),
    range(WIDTH),
    lambda y, x: FIRST + ((_bin(y - _MIDDLE, 8) + MOVES[0] // 2) * MOVES[1] + x // 8) * MOVES[2] * MOVES[3],
)
_REACHED = range(-2 * REACH[0], 2 * REACH[0] + 1), range(-REACH[1], REACH[1])
_MOVE = _table(*_REACHED, lambda dy, dx: (dx + REACH[1]) // 2 * MOVES[3] + _bin(dy, 2) + REACH[0])
_LENGTH = _table(*_REACHED, lambda dy, dx: abs(dy) + 2 * abs(dx))
_MOTION = _table(*_REACHED, lambda dy, dx: (1 + (dx > 0) - (dx < 0)) * RELATIONS[3] + _sized(dy))
_ROWS_APART = {
    rows: FIRST + _MOVES + (_bin(rows, 8) + RELATIONS[0] // 2) * RELATIONS[1] * RELATIONS[2] * RELATIONS[3]
    for rows in range(-2 * _MIDDLE, 2 * _MIDDLE + 1)
}
_COLUMNS_APART = {2 * x: (x + WIDTH) // 8 * RELATIONS[2] * RELATIONS[3] for x in range(1 - WIDTH, WIDTH)}


def _relation(apart):
    """The first input of a relation, from the difference of two places."""
    half_rows = (apart + _STRIDE // 2) // _STRIDE
    return _ROWS_APART[half_rows] + _COLUMNS_APART[apart - half_rows * _STRIDE]
