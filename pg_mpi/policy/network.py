"""Fast form of the sparse policy for sampling actions.

h = max(sum of the table's rows of the active inputs + bias, floor);  (logits, value) = h @ last + last bias
"""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, repeat
from math import exp, log

import numpy as np

from pg_mpi.config.array_types import Floats, Integers


class SparseNetwork:
    """Weights of a policy for sampling.

    Args:
        table: (inputs, width), one row per input.
        floor: (width,), lower bound of each unit.

    Attributes:
        bias: (width,); last: (width, A + 1), whose last column is the value's; last_bias: (A + 1,). Set by ``load``.
    """

    bias: Floats
    last: Floats
    last_bias: Floats

    def __init__(self, table: Floats, floor: Floats) -> None:
        self.table, self._floor = table, floor
        self._ones = np.ones(len(table), dtype=table.dtype)

    def load(self, last: Floats, bias: Floats, last_bias: Floats) -> None:
        """Set the parameters after the table."""
        self.last, self.bias, self.last_bias = last, bias, last_bias

    def forward(self, observations: Sequence[Integers]) -> list[list[float]]:
        """Return logits and value of single observations, each an array of active inputs: lists of A + 1 floats.

        After an emulator step the CPU caches are cold, so the number and size of numpy calls determine the time. Here
        ``dot`` takes half as long as ``@`` and a third as long as a reduction.
        """
        if len(observations) == 1:
            units = self._sum(observations[0])
        else:
            units = np.empty((len(observations), self.table.shape[1]), dtype=self.table.dtype)
            for total, active in zip(units, observations):
                self._sum(active, total)
        units += self.bias
        np.maximum(units, self._floor, out=units)
        outputs = units.dot(self.last)
        outputs += self.last_bias
        return [outputs.tolist()] if units.ndim == 1 else outputs.tolist()

    def sample(
        self,
        observations: Sequence[Integers],
        generators: Sequence[np.random.Generator],
        preferences: Sequence[Sequence[float] | None] = (),
    ) -> list[tuple[float, int, float]]:
        """See ``Network``. A preference has A floats, one per action."""
        drawn = []
        for logits, rng, preference in zip(self.forward(observations), generators, preferences or repeat(None)):
            value = logits.pop()
            preferred = [a + b for a, b in zip(logits, preference)] if preference else logits
            drawn.append((value, *draw(preferred, rng.random())))
        return drawn

    def likeliest(self, observation: Integers) -> int:
        """Return the most probable action."""
        return int(np.argmax(self.forward([observation])[0][:-1]))

    def value(self, observation: Integers) -> float:
        """Return the value of a state."""
        return self.forward([observation])[0][-1]

    def _sum(self, active: Integers, out: Floats | None = None) -> Floats:
        """Return the sum of the table's rows ``active``: (width,)."""
        total: Floats = self._ones[: len(active)].dot(self.table.take(active, 0), out=out)
        return total

    def flops(self, steps: int, active: int) -> int:
        """Return the floating-point operations of ``steps`` forward passes with ``active`` inputs in all."""
        width, outputs = self.last.shape
        return 2 * int(width) * (active + steps * int(outputs))


def draw(logits: Sequence[float], uniform: float) -> tuple[int, float]:
    """Sample from softmax(logits) with one uniform number: (action, log-probability).

    Plain floats are much faster than numpy for a few actions.
    """
    top = max(logits)
    sums = list(accumulate([exp(logit - top) for logit in logits]))
    action = bisect_right(sums, uniform * sums[-1], 0, len(sums) - 1)  # at most the last one, despite rounding
    return action, logits[action] - top - log(sums[-1])
