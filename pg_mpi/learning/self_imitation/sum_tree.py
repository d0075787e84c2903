"""Drawing places in proportion to their return, without replacement, in time that grows with their number's logarithm.

Each place has a return R, and is drawn in proportion to

    w = R + |min(m, 0)|,   m the smallest return there is,

so that the worst weighs nothing where it is below 0. The shift is the same for all, so it is left out of what is kept:
a tree of sums of R, of counts and of smallest R gives the weight of any node as sum + count * shift, and a new minimum
costs nothing. Returns are kept as whole multiples of 2^-20, of which float64 adds many without rounding: the sums are
exact, whatever was written in whatever order.

Without replacement: who was drawn is taken out, and the others keep their proportions, as
``Generator.choice(n, k, replace=False, p=w / w.sum())`` does it.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.integer[Any]]
Floats = NDArray[np.floating[Any]]

FAN = 32  # children of a node: few levels, and one call for the children of many nodes
ROOT = 2048  # most children of the root, where one search finds the children of all that is looked for
GRID = 2.0**-20
ROUNDS = 3  # of drawing more where some came twice, before they are taken out


class SumTree:
    """Returns by place, 0 to ``capacity`` - 1, of which any may be empty.

    Every level holds for each group of nodes the sums of their returns *up to* each, in units of the grid, and likewise
    the counts: what is looked for at random is found without adding anything up. Groups are of ``FAN`` nodes, and the
    last one, the root, of all that are left.

    Attributes:
        limit: returns may be so large, either way, for their sums to be exact.
        nbytes: memory, allotted at once.
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
        """How many places have a return."""
        return int(self._counts[-1][0, -1])

    def write(self, places: Integers, returns: Floats) -> None:
        """Set the returns of some places, each named once. Raises ``ValueError`` for one beyond ``limit``."""
        self.check(returns)
        self._set(places, np.rint(np.asarray(returns, np.float64) / GRID), 1)

    def check(self, returns: Floats) -> None:
        """Raise ``ValueError`` for returns that are not finite, or beyond ``limit``."""
        if not np.all(np.abs(returns) <= self.limit):  # nor is what is no number
            raise ValueError(f"returns must be finite and at most {self.limit:g} either way")

    def clear(self, places: Integers) -> None:
        """Empty some places, each named once."""
        self._set(places, 0, 0)

    def returns(self, places: Integers) -> Floats:
        """What the places hold."""
        children = _apart(self._sums[0][places // FAN])
        found: Floats = children[np.arange(len(places)), places % FAN] * GRID
        return found

    def least(self) -> float:
        """The smallest return; infinity where there is none."""
        return float(self._least[-1].min()) * GRID

    def draw(self, count: int, rng: np.random.Generator) -> Integers:
        """``count`` different places, int64 (count,), in the order in which they were drawn.

        Where fewer places than that weigh anything, the rest is drawn uniformly among those that weigh nothing.
        Raises ``ValueError`` where fewer have a return.
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
        """As ``draw``, after some were found: they are taken out for a while, or they would come again and again."""
        new, values = found, np.empty(0)
        while len(found) < count:
            values = np.concatenate((values, np.rint(self.returns(new) / GRID)))
            self._set(new, 0, 0)
            new = _firsts(self._draw_again(count - len(found), shift, rng))
            found = np.concatenate((found, new))
        self._set(found[: len(values)], values, 1)
        return found

    def _draw_again(self, count: int, shift: float, rng: np.random.Generator) -> Integers:
        """Places drawn with replacement: int64 (count,)."""
        total = self._sums[-1][0, -1] + shift * self._counts[-1][0, -1]
        weights = (True, shift) if total else (False, 1.0)  # nobody weighs anything: all the same
        targets = rng.integers(0, int(total) or len(self), size=count).astype(np.float64)
        return self._descend(targets, *weights)

    def _descend(self, targets: Floats, of_sum: bool, of_count: float) -> Integers:
        """For each target the place up to which, and to none before it, the weights add up to more; spoils the targets.

        A weight is ``of_count``, and the return too if ``of_sum``.
        """
        weights = self._counts[-1][0] * of_count
        if of_sum:
            weights += self._sums[-1][0]
        nodes: Integers = weights.searchsorted(targets, side="right")
        targets -= np.where(nodes > 0, weights.take(nodes - 1), 0)
        before_first = np.arange(len(targets)) * FAN - 1
        if len(self._upto) != len(targets):  # kept: fresh memory of this size is the half of a draw
            self._upto, self._some = np.empty((2, len(targets), FAN))
            self._less = np.empty(self._upto.shape, dtype=bool)
        upto, some = self._upto, self._some
        for sums, counts in zip(self._sums[-2::-1], self._counts[-2::-1]):
            np.multiply(counts.take(nodes, axis=0), of_count, out=upto)
            if of_sum:
                upto += sums.take(nodes, axis=0, out=some, mode="clip")
            np.less_equal(upto, targets[:, None], out=self._less)
            child = self._less.argmin(axis=1)  # the first that is more
            targets -= np.where(child > 0, upto.reshape(-1).take(before_first + child), 0)
            nodes = nodes * FAN + child
        return nodes

    def _set(self, places: Integers, values: Any, counts: Any) -> None:
        """Set leaves, and all that they are part of."""
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
        """The same for one leaf, without what only many are worth: sums of whole numbers may be changed in place."""
        before, had = self._leaf(self._sums[0], place), int(self._leaf(self._counts[0], place))
        more, one_more, node = value - before, count - had, place
        for sums, counts in zip(self._sums, self._counts):
            group, child = divmod(node, sums.shape[1])
            sums[group, child:] += more
            if one_more:
                counts[group, child:] += np.array(one_more).astype(counts.dtype)  # without a sign they wrap around
            node = group
        self._lower(place // FAN, before if had else np.inf, value if count else np.inf)

    def _leaf(self, upto: NDArray[Any], place: int) -> float:
        """A single value of the lowest level, from the sums up to each."""
        return float(upto.item(place)) - (float(upto.item(place - 1)) if place % FAN else 0.0)

    def _lower(self, node: int, before: float, after: float) -> None:
        """Keep the smallest return below each node, once one below ``node`` has changed."""
        for number, level in enumerate(self._least):
            known = level.item(node)
            if before > known and after > known:
                return
            smallest = after
            if after > known:  # and the smallest one is gone
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
    """Each place that was drawn once, where it came first."""
    ordered = np.sort(drawn)
    if (ordered[1:] != ordered[:-1]).all():
        return drawn
    return drawn[np.sort(np.unique(drawn, return_index=True)[1])]


def _apart(upto: Floats) -> Floats:
    """The single values of sums up to each: (..., FAN)."""
    single = upto.copy()
    single[..., 1:] -= upto[..., :-1]
    return single
