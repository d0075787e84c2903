"""The gradient noise scale: how many samples a minibatch may have before more bring little.

    noise scale = tr(S) / |G|^2    G: the gradient, S: the covariance of a sample's gradient

Two minibatches of n1 and n2 other samples have gradients g1, g2 with E[g1 . g2] = |G|^2 and
E[|g1 - g2|^2] = tr(S) (1 / n1 + 1 / n2), if the weights are the same. The first two minibatches of an update are one
optimizer step apart. One update says little: divide the mean of ``grad_variance`` over many by that of ``grad_signal``.
Source: McCandlish et al., "An Empirical Model of Large-Batch Training" (2018).
"""

from collections.abc import Callable
from typing import Any

from pg_mpi.learning.advantages import Floats


class GradientNoise:
    """Compares the first two minibatches of an update."""

    def __init__(self) -> None:
        self._missing = 0
        self._first: tuple[Floats, float]
        self._found: tuple[float, float] | None = None

    def expect(self, minibatches: int) -> None:
        """Compare the next two of an epoch's ``minibatches``, if there are two."""
        self._missing = 2 if minibatches > 1 else 0

    def see(self, gradient: Floats, samples: float, dot: Callable[[Floats, Floats], Any]) -> None:
        """Take in the mean gradient of ``samples`` samples, (n,), which is left as it is; ``dot``: sum of products."""
        if self._missing == 2:
            self._first = gradient.copy(), samples
        elif self._missing == 1:
            first, before = self._first
            signal = float(dot(first, gradient))
            first -= gradient
            self._found = signal, float(dot(first, first)) / (1 / before + 1 / samples)
            del self._first
        self._missing = max(0, self._missing - 1)

    def metrics(self) -> dict[str, float | None]:
        """``grad_signal``, an estimate of |G|^2 which may be negative, and ``grad_variance``, of tr(S)."""
        signal, variance = self._found or (None, None)
        return {"grad_signal": signal, "grad_variance": variance}
