"""Blobs → active inputs: positions, steps, offsets between blobs, and predicted crossings.

    tiles      a square of 8 x 8 pixels that contains foreground of one colour class
    rows       the row of a blob's centre, and the band of 32 columns that contains it; columns likewise
    moves      a mover's cell in a grid of 16 x 16 pixels, and its step
    relations  a mover's offset from another blob, and the direction of its step
    crossings  a mover's step is extrapolated until it has another blob's row or column: its offset from that blob
               then, the number of steps, and the motion of the other blob along that line

Movers are blobs that moved in this step. Pairs of blobs with equal steps keep their relation and are omitted. Offsets,
steps and times are binned by size: small ones in fine bins, large ones in coarse bins.

The closest published features are Blob-PROST (Liang et al., "State of the Art Control of Atari Games Using Shallow
Reinforcement Learning", 2016): positions of blobs, offsets between two blobs, and offsets between two screens, of exact
colours and in uniform tiles, as inputs of a linear function. Blob-PROST has no crossings, no colour classes found by
calibration and no bins by size. Its three-way offsets are not used here.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from math import ceil, prod

from pg_mpi.features.blobs import Blob
from pg_mpi.features.foreground import WIDTH, Run

MOST_PAIRS = 256  # limit on movers x blobs of a screen; above it relations and crossings are omitted
HEIGHT = 256  # upper bound of the height of a screen
TILE, CELL = 8, 16  # side lengths in pixels
BANDS = 32  # width of a band of rows or columns in pixels
HALVES = [0, 1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64, 91, 128, 181]  # 2^(k/2)
OCTAVES = [0, 1, 2, 4, 8, 16, 32, 64, 128]  # 2^k
SPEEDS = [0, 4, 12, 24]  # half pixels per step
DRIFTS = [0, 4, 16]
CHANGE = 4  # half pixels per step; a smaller or equal change of a blob's step is binned as none

_TILES = (HEIGHT // TILE, WIDTH // TILE)
_ROWS, _COLUMNS = (HEIGHT, WIDTH // BANDS), (WIDTH, HEIGHT // BANDS)
_MOVES = (HEIGHT // CELL, WIDTH // CELL, 2 * len(SPEEDS) + 1, 2 * len(SPEEDS) + 1)
_OFFSETS = (2 * len(OCTAVES) + 1, 2 * len(OCTAVES) + 1)
_DIRECTIONS = (3, 3)
TIMES = 6  # bins of steps ahead
_BESIDE = (2, 2, TIMES, 2 * len(HALVES) + 1)  # axis, direction, steps, offset
DRIFT = (2 * len(DRIFTS) + 1, 3)
LONGEST = 2 ** (TIMES - 1)  # limit on steps ahead


class Layout:
    """Numbering of all inputs, block by block, for a number of colour classes.

    Attributes:
        size: number of inputs.
    """

    def __init__(self, colours: int) -> None:
        one, two = (colours,), (colours, colours)
        shapes: dict[str, tuple[int, ...]] = {
            "tiles": one + _TILES,
            "rows": one + _ROWS,
            "columns": one + _COLUMNS,
            "moves": one + _MOVES,
            "offsets": two + _OFFSETS,
            "relations": one + _OFFSETS + _DIRECTIONS,
            "crossings": one + _BESIDE,
            "drifting": one + _BESIDE + DRIFT,
        }
        self._blocks: dict[str, tuple[int, tuple[int, ...]]]
        self._blocks, self.size = {}, 0
        for name, shape in shapes.items():
            self._blocks[name] = self.size, shape
            self.size += prod(shape)

    def number(self, block: str, *indices: int) -> int:
        """Return the number of an input from its indices within a block."""
        first, shape = self._blocks[block]
        number = 0
        for index, length in zip(indices, shape):
            assert 0 <= index < length
            number = number * length + index
        return first + number


def tiles(runs: Iterable[Run], layout: Layout) -> set[int]:
    """Return the set of inputs of the tiles that runs touch."""
    touched = {
        (colour, row // TILE, tile)
        for row, first, last, colour in runs
        for tile in range(first // TILE, last // TILE + 1)
    }
    return {layout.number("tiles", *tile) for tile in touched}


def inputs(blobs: Sequence[Blob], layout: Layout) -> set[int]:
    """Return the set of inputs of tracked blobs, without the tiles."""
    found: set[int] = set()
    for blob in blobs:
        row, column = blob.y // 2, blob.x // 2
        found.add(layout.number("rows", blob.colour, row, column // BANDS))
        found.add(layout.number("columns", blob.colour, column, row // BANDS))
        if blob.moves:
            steps = signed_bin(blob.vy, SPEEDS), signed_bin(blob.vx, SPEEDS)
            found.add(layout.number("moves", blob.colour, row // CELL, column // CELL, *steps))
    movers = [blob for blob in blobs if blob.moves]
    if len(movers) * len(blobs) <= MOST_PAIRS:
        for mover in movers:
            for other in blobs:
                if (mover.vy, mover.vx) != (other.vy, other.vx):
                    found.update(_relation(mover, other, layout))
                    found.update(_crossing(mover, other, 0, layout))
                    found.update(_crossing(mover, other, 1, layout))
    return found


def _relation(mover: Blob, other: Blob, layout: Layout) -> Iterator[int]:
    """Yield the offset of a mover from another blob: with both colours, and with the mover's direction."""
    offsets = signed_bin(_half(mover.y - other.y), OCTAVES), signed_bin(_half(mover.x - other.x), OCTAVES)
    place = mover.colour, other.colour, *offsets
    yield layout.number("offsets", *place)
    yield layout.number("relations", *place[1:], 1 + _sign(mover.vy), 1 + _sign(mover.vx))


def _crossing(mover: Blob, other: Blob, axis: int, layout: Layout) -> Iterator[int]:
    """Yield the inputs of a mover that reaches another blob's column (axis 0) or row (axis 1)."""
    speed, away = (mover.vx, other.x - mover.x) if axis == 0 else (mover.vy, other.y - mover.y)
    if speed * away <= 0 or abs(away) > LONGEST * abs(speed):
        return
    steps = away / speed
    if axis == 0:
        beside, drift, change = round(mover.y + mover.vy * steps - other.y), other.vy, other.ay
    else:
        beside, drift, change = round(mover.x + mover.vx * steps - other.x), other.vx, other.ax
    time = time_bin(steps)
    place = other.colour, axis, int(speed > 0), time, signed_bin(beside, HALVES)
    yield layout.number("crossings", *place)
    yield layout.number("drifting", *place, *drift_bins(drift, change))


def signed_bin(number: int, ends: Sequence[int]) -> int:
    """Return the bin of a number by sign and size, 0 to 2 len(ends). ``ends``: upper end of each bin but the last."""
    size = bisect_left(ends, abs(number))
    return len(ends) + (size if number > 0 else -size)


def time_bin(steps: float) -> int:
    """Return the bin of a number of steps ahead, above 0 and at most LONGEST: 0 up to 1 step, then by octaves."""
    return (ceil(steps) - 1).bit_length()


def drift_bins(step: int, change: int) -> tuple[int, int]:
    """Return the bins of a blob's step along a line and of its change since the previous step."""
    turns = (change > CHANGE) - (change < -CHANGE) if step else 0
    return signed_bin(step, DRIFTS), 1 + turns


def _half(number: int) -> int:
    """Return half of a number, rounded towards zero as in C."""
    return int(number / 2)


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)
