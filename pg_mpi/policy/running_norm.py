"""Running means and deviations, the same on all ranks: of what is observed, and of the returns that rewards make.

Sums over a round are taken about the mean so far, summed over ranks, and merged into the running figures (Chan, Golub &
LeVeque, 1979), so that a large mean costs no digits. A round is played and learned from with the figures before it.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]

LIMIT = 10.0  # deviations that a scaled observation may be away from 0
LEAST = 1e-8  # of a variance


class RunningNorm:
    """Figures of D numbers that are observed, and of the return, the last one.

    Args:
        origin: float (D,), an observation such as there are: the mean before any was seen.

    Attributes:
        state: float64 (1 + 2 * (D + 1),): how many were seen, their means, and their sums of squares about those.
    """

    def __init__(self, origin: Any = ()) -> None:
        self.state = np.zeros(1 + 2 * (len(origin) + 1))
        self.state[1 : 1 + len(origin)] = origin
        self.refresh()

    def refresh(self) -> None:
        """Take up a changed ``state``."""
        (count,), mean, squares = _parts(self.state)
        variance = squares / count if count else np.ones_like(squares)
        self._mean = mean
        self._factor = np.where(variance > LEAST, 1 / np.sqrt(np.maximum(variance, LEAST)), 1.0)

    @property
    def reward_factor(self) -> float:
        """What a reward is multiplied with for returns of deviation 1."""
        return float(self._factor[-1])

    def scaled(self, observations: Floats) -> Floats:
        """Observations (..., D) to mean 0 and deviation 1, cut off at ``LIMIT``: of the same dtype."""
        scaled: Floats = ((observations - self._mean[:-1]) * self._factor[:-1]).astype(observations.dtype)
        return np.clip(scaled, -LIMIT, LIMIT, out=scaled)

    def sums(self, observations: Floats, returns: Floats) -> Floats:
        """What one env's round adds to the sums: [n, sum of (x - mean), sum of (x - mean)^2].

        Args:
            observations: (n, D).
            returns: (n,), discounted.
        """
        seen = np.column_stack((observations, returns)).astype(np.float64)
        away = seen - self._mean
        return np.concatenate(([len(seen)], away.sum(axis=0), (away * away).sum(axis=0)))

    def merge(self, sums: Floats) -> None:
        """Take in the sums over all envs of a round."""
        (before,), mean, squares = _parts(self.state)
        (count,), shift, about = _parts(sums)
        if count:
            step = shift / count  # from the mean before to the round's own
            total = before + count
            squares += about - count * step**2 + step**2 * before * count / total
            mean += step * count / total
            self.state[0] = total
        self.refresh()


def _parts(figures: Floats) -> list[Floats]:
    """The count, the means and the squares, as views."""
    return np.split(figures, [1, 1 + len(figures) // 2])
