"""Running means and standard deviations of observations and returns, the same on all ranks.

The sums of a round are taken about the current mean, summed over ranks, and merged into the running statistics (Chan,
Golub & LeVeque, 1979), so that a large mean costs no precision. A round and its update use the statistics before it.
"""

from typing import Any

import numpy as np

from pg_mpi.config.array_types import Floats

TINY = 1e-30  # a variance up to this is not normalised either
LIMIT = 10.0  # bound of a normalised observation, in standard deviations
ROUNDING = 1e-7  # a deviation up to this share of the mean may be the rounding of a constant: it is not normalised


class RunningNorm:
    """Running statistics of D observed numbers and, last, of the return.

    Args:
        origin: float (D,), an example of an observation: the initial mean.

    Attributes:
        state: float64 (1 + 2 * (D + 1),): count, means, and sums of squared deviations from the means.
    """

    def __init__(self, origin: Any = ()) -> None:
        self.state = np.zeros(1 + 2 * (len(origin) + 1))
        self.state[1 : 1 + len(origin)] = origin
        self.refresh()

    def refresh(self) -> None:
        """Recompute the scaling after a change of ``state``."""
        (count,), mean, squares = _parts(self.state)
        variance = squares / count if count else np.ones_like(squares)
        self._mean = mean
        least = (ROUNDING * mean) ** 2 + TINY
        self._factor = np.where(variance > least, 1 / np.sqrt(np.maximum(variance, least)), 1.0)

    @property
    def reward_factor(self) -> float:
        """Factor of rewards that gives returns a standard deviation of 1."""
        return float(self._factor[-1])

    def scaled(self, observations: Floats) -> Floats:
        """Normalise observations (..., D) to mean 0 and standard deviation 1, clipped at ``LIMIT``, in their dtype."""
        scaled: Floats = ((observations - self._mean[:-1]) * self._factor[:-1]).astype(observations.dtype)
        return np.clip(scaled, -LIMIT, LIMIT, out=scaled)

    def sums(self, observations: Any, returns: Floats) -> Floats:
        """Return the sums of one env's round: [n, sum of (x - mean), sum of (x - mean)^2].

        Args:
            observations: n arrays (D,); not used if D is 0, as with sparse observations.
            returns: (n,), discounted.
        """
        numbers = len(self._mean) - 1
        observed = np.reshape(observations if numbers else (), (len(returns), numbers))
        seen = np.column_stack((observed, returns)).astype(np.float64)
        away = seen - self._mean
        return np.concatenate(([len(seen)], away.sum(axis=0), (away * away).sum(axis=0)))

    def merge(self, sums: Floats) -> None:
        """Merge the sums over all envs of a round into ``state``; sums that are not finite are left out."""
        (before,), mean, squares = _parts(self.state)
        (count,), shift, about = _parts(sums)
        if count and np.isfinite(sums).all():
            step = shift / count  # from the old mean to the mean of the round
            total = before + count
            squares += about - count * step**2 + step**2 * before * count / total
            mean += step * count / total
            self.state[0] = total
        self.refresh()


def _parts(figures: Floats) -> list[Floats]:
    """Return views of the count, the means and the sums of squares."""
    return np.split(figures, [1, 1 + len(figures) // 2])
