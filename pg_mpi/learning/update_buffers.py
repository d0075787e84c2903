"""Working arrays of one update: the touched parameters and their gradient, summed over groups and then over ranks."""

import dataclasses
from typing import Any

import numpy as np

from pg_mpi.config.array_types import Floats
from pg_mpi.learning.gradient_noise import GradientNoise
from pg_mpi.learning.reproducible_sum import FINE, to_units, too_large
from pg_mpi.policy.interface import Policy


@dataclasses.dataclass
class UpdateBuffers:
    """The touched parameters, their optimizer state, and the exchange buffer: the gradient, then its weight.

    Args:
        exact: whether sums must not depend on their order. The buffer is then float64, in units of 2^-FINE.
        minibatches: of an epoch.

    Attributes:
        out: the gradient of one group, before ``take_in`` adds it.
        flops: floating-point operations of the gradients.
        empty: True before the first group of a minibatch.
        steps_before: the optimizer's steps before the update.
        noise: compares the gradients of groups of samples.
        norms: gradient norms of the steps taken; ``skipped``: whether a gradient was not finite.
    """

    theta: Floats
    state: Floats
    learning_rate: float
    ent_coef: float
    steps_before: int
    exact: bool = False
    minibatches: int = 1

    def __post_init__(self) -> None:
        self.allocate()

    def allocate(self) -> None:
        """Allocate the buffers, without a gradient."""
        buffer = np.zeros(self.theta.size + 1, dtype=np.float64 if self.exact else self.theta.dtype)
        self.place(self.theta, self.state, buffer)
        self._units: Any = np.empty(self.theta.size) if self.exact else None
        self.noise = GradientNoise(self.exact)
        self.empty, self.skipped, self.flops = True, False, 0
        self.norms: list[float] = []

    def place(self, theta: Floats, state: Floats, buffer: Floats) -> None:
        """Use these arrays: ``theta`` (n,), ``state`` (k, n), ``buffer`` (n + 1,)."""
        self.theta, self.state, self.buffer = theta, state, buffer
        self.out = np.empty_like(theta) if self.exact else buffer[:-1]

    def add_gradient(
        self, policy: Policy, x: Any, outputs: Floats, hidden: Any, d_policy: Floats, d_values: Floats | float
    ) -> None:
        """Add the gradient of a loss, from its derivatives by the actions' outputs (n, A) and by the values (n,).

        ``x``, ``outputs``, ``hidden``: the batch, and what ``policy.forward`` returned for it.
        """
        d_outputs = np.empty_like(outputs)
        d_outputs[:, :-1], d_outputs[:, -1] = d_policy, d_values
        policy.backward(self.theta, x, hidden, d_outputs, self.out)
        self.take_in()
        self.flops += policy.operations(x)

    def take_in(self) -> None:
        """Add ``out`` to the buffer. Without ``exact`` there is one group, and ``out`` is the buffer."""
        if self.exact:
            to_units(self.out, FINE, self._units)
            np.add(self._units, 0.0 if self.empty else self.buffer[:-1], out=self.buffer[:-1])  # + 0 turns -0 into 0
        self.empty = False

    def begin_exchange(self) -> None:
        """Clear the buffer if this rank has no samples in this minibatch; the next gradient begins a new sum."""
        if self.empty:
            self.buffer[:] = 0
        self.empty = True

    def count_step(self, norm: float, weight: float) -> None:
        """Record the norm and the weight of a gradient over all ranks. All ranks skip a step that is not finite."""
        self.noise.add_whole(norm, weight)
        if np.isfinite(norm):
            self.norms.append(norm)
        else:
            self.skipped = True

    def mean(self, summed: Floats, weight: float, part: slice = slice(None)) -> Floats:
        """The gradient divided by its weight: in ``out[part]``, which the caller may overwrite.

        ``summed``: the sum over ranks of this part of the buffer.
        """
        out = self.out[part]
        np.divide(summed, weight * (2.0**FINE if self.exact else 1.0), out=out)
        return out

    def too_large(self, summed: Floats) -> bool:
        """Whether a sum over ranks is too large for ``exact`` sums."""
        return self.exact and too_large(summed, 2.0**52)
