"""Foreground runs → blobs, and the step of each blob since the previous screen.

A blob is a connected component of foreground pixels of one colour class. Runs of adjacent rows are connected if they
touch, corners included; runs of one row if at most one pixel is between them. The position of a blob is the centre of
its bounding box in half pixels (top + bottom row, left + right column), which is an integer.
"""

from collections.abc import Sequence
from typing import NamedTuple

from pg_mpi.features.foreground import WIDTH, Run

MOST_RUNS, MOST_BLOBS = 1024, 96  # limits per screen; above them no blobs are found
REACH = 8  # a blob moves by at most 1 / REACH of the screen in one step
SIZE_WEIGHT = 4  # half pixels of distance per pixel of difference in height or width


class Blob(NamedTuple):
    """A blob. Positions and steps are in half pixels, down and to the right."""

    y: int
    x: int
    height: int
    width: int
    colour: int
    vy: int = 0  # step since the previous screen
    vx: int = 0
    ay: int = 0  # change of the step since the previous one
    ax: int = 0

    @property
    def moves(self) -> bool:
        """Whether the blob moved in this step."""
        return bool(self.vy or self.vx)


def find(runs: Sequence[Run]) -> list[Blob] | None:
    """Find the blobs of a screen from its runs: a list in scan order, or None if there are too many."""
    if len(runs) > MOST_RUNS:
        return None
    parents = list(range(len(runs)))

    def root(i: int) -> int:
        while parents[i] != i:
            i = parents[i]
        return i

    above = 0
    for i, (row, first, last, colour) in enumerate(runs):
        while runs[above][0] < row - 1:
            above += 1
        for k in range(above, i):
            other_row, other_first, other_last, other_colour = runs[k]
            reach = 1 if other_row < row else 2
            if other_colour == colour and other_first <= last + reach and other_last >= first - reach:
                one, two = root(k), root(i)
                parents[max(one, two)] = min(one, two)
    boxes: dict[int, list[int]] = {}
    for i, (row, first, last, colour) in enumerate(runs):
        box = boxes.setdefault(root(i), [row, row, first, last, colour])
        box[1], box[2], box[3] = max(box[1], row), min(box[2], first), max(box[3], last)
    if len(boxes) > MOST_BLOBS:
        return None
    return [
        Blob(top + bottom, left + right, bottom - top + 1, right - left + 1, colour)
        for top, bottom, left, right, colour in boxes.values()
    ]


def track(now: Sequence[Blob], before: Sequence[Blob], height: int) -> list[Blob]:
    """Return the blobs ``now``, each with its step since ``before``.

    A blob is matched with the nearest previous blob of its colour class within reach, or the first of equally near
    ones. The distance includes the difference in size. Several blobs may have the same match.
    """
    return [_tracked(blob, before, 2 * (height // REACH), 2 * (WIDTH // REACH)) for blob in now]


def _tracked(blob: Blob, before: Sequence[Blob], reach_y: int, reach_x: int) -> Blob:
    def distance(other: Blob) -> int:
        sizes = abs(blob.height - other.height) + abs(blob.width - other.width)
        return abs(blob.y - other.y) + abs(blob.x - other.x) + SIZE_WEIGHT * sizes

    near = [
        other
        for other in before
        if other.colour == blob.colour and abs(blob.y - other.y) <= reach_y and abs(blob.x - other.x) <= reach_x
    ]
    if not near:
        return blob
    origin = min(near, key=distance)
    vy, vx = blob.y - origin.y, blob.x - origin.x
    return blob._replace(vy=vy, vx=vx, ay=vy - origin.vy, ax=vx - origin.vx)
