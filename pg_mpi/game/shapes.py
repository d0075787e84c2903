"""Shapes: active pixels → places.

A shape is known by a left edge, a run of pixels in one column, and its place is the column and the middle of its
upper and lower end. A place is one number, (upper + lower row) * STRIDE + 2 * column, so that the difference of two
places is one number too and tells rows and columns apart. Rows are counted in halves, for the middle may lie between
two.
"""

HEIGHT = WIDTH = 80
HALF_ROWS = 2 * HEIGHT - 1  # a middle is in half row 0 to 158
STRIDE = 320
_PLACE = [row * STRIDE + column for row in range(HEIGHT) for column in range(WIDTH)]


def left_ends(pixels):
    """The first of each run of pixels in a row, among sorted active pixels, int64 (n,): a sorted list.

    Plain Python: the pixels are few, and after an emulator step this is warm where numpy's small calls are cold.
    """
    numbers = pixels.tolist()
    return [pixel for before, pixel in zip([-2, *numbers], numbers) if pixel != before + 1 or pixel % WIDTH == 0]


def shapes(left_ends):
    """The places of all shapes, from the sorted left ends of their rows: a set of ints."""
    edges = {}  # upper end by lower end
    for pixel in left_ends:
        edges[pixel] = edges.pop(pixel - WIDTH, pixel)
    return {_PLACE[lower] + _PLACE[upper] for lower, upper in edges.items()}
