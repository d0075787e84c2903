"""Sum tree: draws places in proportion to their return, without replacement, in logarithmic time.

Each place has a return R, and is drawn in proportion to

    w = R + |min(m, 0)|,   m the smallest return,

so the smallest return has weight 0 if it is negative. The tree holds sums of R, counts and smallest R, without the
shift. The weight of a node is sum + count * shift, and a new minimum costs nothing. Returns are kept as multiples of
2^-20, which float64 adds exactly: the sums do not depend on the order of writes.

Without replacement: a drawn place is removed and the others keep their proportions, as in
``Generator.choice(n, k, replace=False, p=w / w.sum())``.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.integer[Any]]
Floats = NDArray[np.floating[Any]]

FAN = 32  # children of a node
ROOT = 2048  # most children of the root, where one search serves all targets
GRID = 2.0**-20
ROUNDS = 3  # of redrawing duplicates, before drawn places are removed


class SumTree:
    """Returns by place, 0 to ``capacity`` - 1. Any place may be empty.

    Every level holds cumulative sums of returns, in units of the grid, and cumulative counts within each group of
    nodes, so that a search needs no additions. A group has ``FAN`` nodes; the root is one group of all nodes below it.

    Attributes:
        limit: largest absolute return for which the sums are exact.
        nbytes: memory, allocated at once.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.limit = 2.0**51 * GRID / capacity
        shapes = [(-(-capacity // FAN), FAN)]
        while shapes[-1][0] > ROOT:
            shapes.append((-(-shapes[-1][0] // FAN), FAN))
        shapes.append((1, shapes[-1][0]))
        self._sums = [np.zeros(shape) for shape in shapes]
        kinds = [np.uint8] + [np.float64] * (len(shapes) - 1)
        self._counts = [np.zeros(shape, kind) for shape, kind in zip(shapes, kinds)]
        self._least = [np.full(shape, np.inf) for shape in shapes[1:]]  # below each node
        self._upto = np.empty((0, FAN))
        self.nbytes = sum(level.nbytes for level in (*self._sums, *self._counts, *self._least))

    def __len__(self) -> int:
        """Number of places with a return."""
        return int(self._counts[-1][0, -1])

    def write(self, places: Integers, returns: Floats) -> None:
        """Set the returns of different places. Raises ``ValueError`` for one beyond ``limit``."""
        self.check(returns)
        self._set(places, np.rint(np.asarray(returns, np.float64) / GRID), 1)

    def check(self, returns: Floats) -> None:
        """Raise ``ValueError`` for returns that are not finite or are beyond ``limit``."""
        if not np.all(np.abs(returns) <= self.limit):  # False for NaN
            raise ValueError(f"returns must be finite and at most {self.limit:g} in absolute value")

    def clear(self, places: Integers) -> None:
        """Empty some different places."""
        self._set(places, 0, 0)

    def returns(self, places: Integers) -> Floats:
        """The returns at ``places``."""
        children = _apart(self._sums[0][places // FAN])
        found: Floats = children[np.arange(len(places)), places % FAN] * GRID
        return found

    def least(self) -> float:
        """The smallest return; infinity if there is none."""
        return float(self._least[-1].min()) * GRID

    def draw(self, count: int, rng: np.random.Generator) -> Integers:
        """Draw ``count`` different places, int64 (count,), in the order of drawing.

        If fewer places have a positive weight, the rest is drawn uniformly among those of weight 0.
        Raises ``ValueError`` if fewer have a return.
        """
        if count > len(self):
            raise ValueError(f"{count} cannot be drawn from {len(self)}")
        shift = -min(self.least(), 0.0) / GRID
        drawn = self._draw_again(count, shift, rng)
        for _ in range(ROUNDS):
            found = _firsts(drawn)
            if len(found) >= count:
                return found[:count]
            more = self._draw_again(2 * (count - len(found)) + FAN, shift, rng)
            drawn = np.concatenate((found, more))
        return self._draw_on(_firsts(drawn)[:count], count, shift, rng)

    # -- the tree ---------------------------------------------------------------------------------------

    def _draw_on(self, found: Integers, count: int, shift: float, rng: np.random.Generator) -> Integers:
        """Complete a draw after ``found``. Drawn places are removed meanwhile, so that they are not drawn again."""
        new, values = found, np.empty(0)
        while len(found) < count:
            values = np.concatenate((values, np.rint(self.returns(new) / GRID)))
            self._set(new, 0, 0)
            new = _firsts(self._draw_again(count - len(found), shift, rng))
            found = np.concatenate((found, new))
        self._set(found[: len(values)], values, 1)
        return found

    def _draw_again(self, count: int, shift: float, rng: np.random.Generator) -> Integers:
        """Draw places with replacement: int64 (count,)."""
        total = self._sums[-1][0, -1] + shift * self._counts[-1][0, -1]
        weights = (True, shift) if total else (False, 1.0)  # all weights are 0: draw uniformly
        targets = rng.integers(0, int(total) or len(self), size=count).astype(np.float64)
        return self._descend(targets, *weights)

    def _descend(self, targets: Floats, of_sum: bool, of_count: float) -> Integers:
        """Find for each target the first place whose cumulative weight exceeds it. Overwrites the targets.

        A weight is ``of_count``, plus the return if ``of_sum``.
        """
        weights = self._counts[-1][0] * of_count
        if of_sum:
            weights += self._sums[-1][0]
        nodes: Integers = weights.searchsorted(targets, side="right")
        targets -= np.where(nodes > 0, weights.take(nodes - 1), 0)
        before_first = np.arange(len(targets)) * FAN - 1
        if len(self._upto) != len(targets):  # reused: allocating it takes half the time of a draw
            self._upto, self._some = np.empty((2, len(targets), FAN))
            self._less = np.empty(self._upto.shape, dtype=bool)
        upto, some = self._upto, self._some
        for sums, counts in zip(self._sums[-2::-1], self._counts[-2::-1]):
            np.multiply(counts.take(nodes, axis=0), of_count, out=upto)
            if of_sum:
                upto += sums.take(nodes, axis=0, out=some, mode="clip")
            np.less_equal(upto, targets[:, None], out=self._less)
            child = self._less.argmin(axis=1)  # the first that exceeds the target
            targets -= np.where(child > 0, upto.reshape(-1).take(before_first + child), 0)
            nodes = nodes * FAN + child
        return nodes

    def _set(self, places: Integers, values: Any, counts: Any) -> None:
        """Set leaves and all nodes above them."""
        if len(places) == 1:
            self._set_one(int(places[0]), float(np.max(values)), counts)
            return
        if not len(places):
            return
        order = np.argsort(places)
        places, least = places[order], None
        values, counts = (np.broadcast_to(each, len(order))[order] for each in (values, counts))
        for number, (all_sums, all_counts) in enumerate(zip(self._sums, self._counts)):
            groups, child = np.divmod(places, all_sums.shape[1])
            begins = np.append(True, groups[1:] != groups[:-1])
            group = begins.cumsum() - 1
            groups = groups[begins]
            sums, has = _apart(all_sums[groups]), _apart(all_counts[groups])
            sums[group, child], has[group, child] = values, counts
            if least is None:
                smallest = np.where(has > 0, sums, np.inf)
            else:
                smallest = self._least[number - 1][groups]
                smallest[group, child] = least
                self._least[number - 1][groups] = smallest
            all_sums[groups], all_counts[groups] = sums, has = sums.cumsum(axis=1), has.cumsum(axis=1)
            places, values, counts, least = groups, sums[:, -1], has[:, -1], smallest.min(axis=1)

    def _set_one(self, place: int, value: float, count: int) -> None:
        """Set one leaf faster than ``_set``: sums of integers can be changed in place."""
        before, had = self._leaf(self._sums[0], place), int(self._leaf(self._counts[0], place))
        more, one_more, node = value - before, count - had, place
        for sums, counts in zip(self._sums, self._counts):
            group, child = divmod(node, sums.shape[1])
            sums[group, child:] += more
            if one_more:
                counts[group, child:] += np.array(one_more).astype(counts.dtype)  # unsigned: wraps around
            node = group
        self._lower(place // FAN, before if had else np.inf, value if count else np.inf)

    def _leaf(self, upto: NDArray[Any], place: int) -> float:
        """A single value of the lowest level, from its cumulative sums."""
        return float(upto.item(place)) - (float(upto.item(place - 1)) if place % FAN else 0.0)

    def _lower(self, node: int, before: float, after: float) -> None:
        """Update the smallest returns after one below ``node`` has changed."""
        for number, level in enumerate(self._least):
            known = level.item(node)
            if before > known and after > known:
                return
            smallest = after
            if after > known:  # the smallest one was removed
                smallest = float(self._least[number - 1][node].min() if number else self._least_leaf(node))
            if smallest == known:
                return
            level.flat[node] = smallest
            node, before, after = node // FAN, known, smallest

    def _least_leaf(self, group: int) -> float:
        """The smallest return of a group of leaves."""
        sums, counts = _apart(self._sums[0][group]), _apart(self._counts[0][group])
        return float(sums[counts > 0].min(initial=np.inf))


def _firsts(drawn: Integers) -> Integers:
    """Each place once, at its first occurrence."""
    ordered = np.sort(drawn)
    if (ordered[1:] != ordered[:-1]).all():
        return drawn
    return drawn[np.sort(np.unique(drawn, return_index=True)[1])]


def _apart(upto: Floats) -> Floats:
    """The single values of cumulative sums: (..., FAN)."""
    single = upto.copy()
    single[..., 1:] -= upto[..., :-1]
    return single
