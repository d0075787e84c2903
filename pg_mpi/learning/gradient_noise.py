"""The gradient noise scale: the size of a minibatch beyond which more samples hardly improve a step.

    noise scale = tr(S) / |G|^2    G: the gradient, S: the covariance of one sample's gradient

The sum of the gradients of n samples has E|s|^2 = n^2 |G|^2 + n tr(S). So the norms of the sums over groups of n_i
samples and over all n of a minibatch give both:

    |G|^2 = (|s|^2 - sum_i |s_i|^2) / (n^2 - sum_i n_i^2)        tr(S) = (sum_i |s_i|^2 - sum_i n_i^2 |G|^2) / n

The estimates of one update are noisy: divide the mean of ``grad_variance`` over many by that of ``grad_signal``.
Source: McCandlish et al., "An Empirical Model of Large-Batch Training" (2018), appendix A.
"""

import numpy as np

from pg_mpi.config.array_types import Floats
from pg_mpi.learning.dot_products import dot
from pg_mpi.learning.reproducible_sum import on_grid
from pg_mpi.mpi.interface import Collectives


class GradientNoise:
    """Compares the first minibatch of an update with its groups: those of all ranks, or of all envs.

    Args:
        exact: whether sums must not depend on their order.
    """

    def __init__(self, exact: bool = False) -> None:
        self._exact = exact
        self._groups = np.zeros(2)  # sums over this rank's groups: |s_i|^2, n_i^2
        self._whole: tuple[float, float] | None = None

    def add_group(self, gradient: Floats, samples: int) -> None:
        """Take in the sum of the gradients of a group's ``samples``, (n,)."""
        if self._whole is None:
            square = dot(gradient, gradient)
            self._groups += on_grid(square) if self._exact else square, samples**2

    def add_whole(self, norm: float, samples: float) -> None:
        """Take in the norm of the mean gradient of a minibatch of ``samples`` over all ranks."""
        self._whole = self._whole or (norm, samples)

    def metrics(self, world: Collectives) -> dict[str, float | None]:
        """``grad_signal``, an estimate of |G|^2 which may be negative, and ``grad_variance``, of tr(S).

        None without two groups. Collective: every rank must call this.
        """
        squares, counts = world.sum_(self._groups)
        norm, n = self._whole or (0.0, 0.0)
        if not counts or counts == n * n:  # REINFORCE adds none
            return {"grad_signal": None, "grad_variance": None}
        signal = ((norm * n) ** 2 - squares) / (n * n - counts)
        return {"grad_signal": float(signal), "grad_variance": float(squares - counts * signal) / n}
