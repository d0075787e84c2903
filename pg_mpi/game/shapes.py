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
    """The numbers of the active inputs, from the places of all shapes now and one step ago: sorted ints."""
    if len(now) * len(before) > MOST_PAIRS:
        now, before = now - before, before - now
        if len(now) * len(before) > MOST_PAIRS:
            return []
    found = []
    for place in now - before:
        steps = [_STEP[place - other] for other in before if place - other in _STEP]
        if steps:
            cell, shortest = _CELL[place], min(steps)[0]
            found += [cell + move for _, move, _ in steps]
            for motion in {motion for length, _, motion in steps if length == shortest}:
                found += [_APART[place - other] + motion for other in now if other != place]
    return sorted(set(found))


# -- tables, by place and by difference of places ---------------------------------------------------------

_STRIDE = 512  # so wide that the difference of two places tells rows and columns
_PLACE = [y * _STRIDE + x for y in range(HEIGHT) for x in range(WIDTH)]
_PLACES = (2 * HEIGHT - 1) * _STRIDE
_MIDDLE = HEIGHT - 1  # in half rows


def _table(half_rows, columns, value):
    """``value(half rows, columns)`` by place, or by difference of places: a dict."""
    return {y * _STRIDE + 2 * x: value(y, x) for y in half_rows for x in columns}


def _listed(table):
    """A table as a list, which is quicker to read than a large dict; a negative key counts from its end."""
    items = [0] * (2 * _PLACES)
    for key, value in table.items():
        items[key] = value
    return items


def _bin(number, width):
    """Bins as wide as ``width``, the same on both sides of 0."""
    return (abs(number) + width // 2) // width * (1 if number > 0 else -1)


def _sized(half_rows):
    """0 to 4: up by more than two rows, up, level, down, down by more than two rows."""
    return 2 + (half_rows > 0) - (half_rows < 0) + (half_rows > 4) - (half_rows < -4)


def _cell(half_row, column):
    """The first of a cell's moves."""
    return FIRST + ((_bin(half_row - _MIDDLE, 8) + MOVES[0] // 2) * MOVES[1] + column // 8) * MOVES[2] * MOVES[3]


def _step(half_rows, columns):
    """A step's length, its number among a cell's moves, and its motion, the number among relations."""
    move = (columns + REACH[1]) // 2 * MOVES[3] + _bin(half_rows, 2) + REACH[0]
    motion = (1 + (columns > 0) - (columns < 0)) * RELATIONS[3] + _sized(half_rows)
    return abs(half_rows) + 2 * abs(columns), move, motion


def _apart(half_rows, columns):
    """The first relation of two shapes so far apart."""
    place = (_bin(half_rows, 8) + RELATIONS[0] // 2) * RELATIONS[1] + (columns + WIDTH) // 8
    return FIRST + _MOVES + place * RELATIONS[2] * RELATIONS[3]


_CELL = _listed(_table(range(2 * HEIGHT - 1), range(WIDTH), _cell))
_STEP = _table(range(-2 * REACH[0], 2 * REACH[0] + 1), range(-REACH[1], REACH[1]), _step)
_APART = _listed(_table(range(-2 * _MIDDLE, 2 * _MIDDLE + 1), range(1 - WIDTH, WIDTH), _apart))
