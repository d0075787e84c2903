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

FAN = 16  # children of a node: few levels, and one call for the children of many nodes
GRID = 2.0**-20


class ReturnTree:
    """Returns by place, 0 to ``capacity`` - 1, of which any may be empty.

    Every level holds for each group of ``FAN`` nodes the sums of their returns *up to* each, in units of the grid, and
    likewise the counts: what is looked for at random is found without adding anything up.

    Attributes:
        limit: returns may be so large, either way, for their sums to be exact.
        nbytes: memory, allotted at once.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.limit = 2.0**51 * GRID / capacity
        groups = [-(-capacity // FAN)]
        while groups[-1] > 1:
            groups.append(-(-groups[-1] // FAN))
        self._sums = [np.zeros((number, FAN)) for number in groups]
        self._counts = [
            np.zeros((number, FAN), np.float64 if level else np.uint8) for level, number in enumerate(groups)
        ]
        self._least = [np.full(-(-number // FAN) * FAN, np.inf) for number in groups]
        self.nbytes = sum(level.nbytes for levels in (self._sums, self._counts, self._least) for level in levels)

    def __len__(self) -> int:
        """How many places have a return."""
        return int(self._counts[-1][0, -1])

    def write(self, places: Integers, returns: Floats) -> None:
        """Set the returns of some places, each named once. Raises ``ValueError`` for one beyond ``limit``."""
        self.check(returns)
        self._set(places, np.rint(np.asarray(returns, np.float64) / GRID), 1)
        self._raise_least(places)

    def check(self, returns: Floats) -> None:
        """Raise ``ValueError`` for returns that are not finite, or beyond ``limit``."""
        if not np.all(np.abs(returns) <= self.limit):  # nor is what is no number
            raise ValueError(f"returns must be finite and at most {self.limit:g} either way")

    def clear(self, places: Integers) -> None:
        """Empty some places, each named once."""
        self._set(places, 0, 0)
        self._raise_least(places)

    def returns(self, places: Integers) -> Floats:
        """What the places hold."""
        values: Floats = np.diff(self._sums[0][places // FAN], axis=1, prepend=0)
        return values[np.arange(len(places)), places % FAN] * GRID

    def draw(self, count: int, rng: np.random.Generator) -> Integers:
        """``count`` different places, int64 (count,), in the order in which they were drawn.

        Where fewer places than that weigh anything, the rest is drawn uniformly among those that weigh nothing.
        Raises ``ValueError`` where fewer have a return.
        """
        if count > len(self):
            raise ValueError(f"{count} cannot be drawn from {len(self)}")
        shift = -min(float(self._least[-1][0]), 0.0)
        found = new = self._draw_some(count, shift, rng)
        values = [np.empty(0)]
        while len(found) < count:  # some came twice: who was found is taken out, and the rest is drawn from the others
            values.append(np.rint(self.returns(new) / GRID))
            self._set(new, 0, 0)
            new = self._draw_some(count - len(found), shift, rng)
            found = np.concatenate((found, new))
        taken = np.concatenate(values)
        self._set(found[: len(taken)], taken, 1)
        return found

    # -- the tree ---------------------------------------------------------------------------------------

    def _draw_some(self, count: int, shift: float, rng: np.random.Generator) -> Integers:
        """Places drawn with replacement, each kept where it comes first."""
        total = self._sums[-1][0, -1] + shift * self._counts[-1][0, -1]
        weights = (1.0, shift) if total else (0.0, 1.0)  # nobody weighs anything: all the same
        targets = rng.integers(0, int(total) or len(self), size=count).astype(np.float64)
        drawn = self._descend(targets, *weights)
        first = np.unique(drawn, return_index=True)[1]
        return drawn if len(first) == count else drawn[np.sort(first)]

    def _descend(self, targets: Floats, of_sum: float, of_count: float) -> Integers:
        """For each target the place up to which, and no place before it, the weights add up to more than the target."""
        nodes = np.zeros(len(targets), dtype=np.int64)
        before_first = np.arange(len(targets)) * FAN - 1
        for sums, counts in zip(self._sums[::-1], self._counts[::-1]):
            upto = counts.take(nodes, axis=0) * of_count
            if of_sum:
                upto += sums.take(nodes, axis=0)
            child = (upto <= targets[:, None]).sum(axis=1)
            targets = targets - np.where(child > 0, upto.reshape(-1).take(before_first + child), 0)
            nodes = nodes * FAN + child
        return nodes

    def _set(self, places: Integers, values: Any, counts: Any) -> None:
        """Set leaves, and all sums and counts that they are part of."""
        for all_sums, all_counts in zip(self._sums, self._counts):
            groups, group = np.unique(places // FAN, return_inverse=True)
            for level, new in ((all_sums, values), (all_counts, counts)):
                children = np.diff(level[groups], axis=1, prepend=level.dtype.type(0))
                children[group, places % FAN] = new
                level[groups] = children.cumsum(axis=1)
            places, values, counts = groups, all_sums[groups, -1], all_counts[groups, -1]

    def _raise_least(self, places: Integers) -> None:
        """Bring the smallest returns above some leaves up to date."""
        for number, least in enumerate(self._least):  # of each group
            places = np.unique(places // FAN)
            if number:
                least[places] = self._least[number - 1].reshape(-1, FAN)[places].min(axis=1)
            else:
                filled = np.diff(self._counts[0][places], axis=1, prepend=np.uint8(0)) > 0
                returns = np.diff(self._sums[0][places], axis=1, prepend=0)
                least[places] = np.where(filled, returns, np.inf).min(axis=1)
