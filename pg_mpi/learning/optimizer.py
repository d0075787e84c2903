"""Optimizers on flat vectors, in place.

``state`` is float32 (k, n), k numbers per parameter. ``step`` works on any slice of the vectors, so an update can cover
only the rows that its samples use. ``rest`` then updates the state of the other rows. ``forget`` sets negligible state
to zero. ``clip`` limits the gradient's norm; ``parameter_store`` calls it before each step.
"""

import math
from typing import Any, ClassVar

import numpy as np

from pg_mpi.config.array_types import Floats

EPSILON = 1e-5
FORGOTTEN = 1e-30  # its root is negligible against epsilon; 170 steps of Adam do not make it subnormal


def forget(state: Floats) -> None:
    """Set state too small to move a weight to zero, in place.

    The state of an inactive unit decays by a constant factor per step. Below 1e-38 a float32 is subnormal, and a
    processor may take several times as long to divide such numbers.
    """
    state *= np.abs(state) >= FORGOTTEN


def clip(gradient: Floats, norm: float, limit: float) -> None:
    """Scale a gradient of this ``norm`` to the norm ``limit`` if it is longer, in place."""
    if norm > limit:
        gradient *= limit / norm


class _State:
    """State ``state`` (slots, P) of an optimizer, and the number ``steps`` of its steps."""

    slots: ClassVar[int]

    def __init__(self, parameters: int, dtype: Any = np.float32) -> None:
        self.state: Floats = np.zeros((self.slots, parameters), dtype=dtype)
        self.steps = 0


class RMSProp(_State):
    """c <- d c + (1 - d) g^2;  theta <- theta - lr g / (sqrt(c) + eps).

    Source: Tieleman & Hinton (2012), with eps outside the root as in Karpathy's Pong.
    """

    slots = 1
    decay = 0.99

    def step(self, theta: Floats, gradient: Floats, state: Floats, learning_rate: float) -> None:
        """One step in place on ``theta`` (n,) with ``state`` (1, n); ``gradient`` (n,) is overwritten."""
        self.steps += 1
        (cache,) = state
        cache *= self.decay
        cache += (1 - self.decay) * gradient * gradient
        gradient /= np.sqrt(cache) + EPSILON
        gradient *= learning_rate
        theta -= gradient

    def rest(self, steps: int) -> None:
        """Decay the whole cache as ``steps`` zero gradients would; touched rows are overwritten afterwards."""
        self.state *= self.decay**steps


class Adam(_State):
    """m <- b1 m + (1-b1) g;  v <- b2 v + (1-b2) g^2;  theta <- theta - lr m^ / (sqrt(v^) + eps).

    m^ and v^ are m and v over 1 - b^t. Source: Kingma & Ba (2015), algorithm 1. Rows that an update does not touch
    keep their parameters and moments (lazy Adam). Dense Adam would move them along their momentum.
    """

    slots = 2
    beta1, beta2 = 0.9, 0.999

    def step(self, theta: Floats, gradient: Floats, state: Floats, learning_rate: float) -> None:
        """One step in place on ``theta`` (n,) with ``state`` (2, n); ``gradient`` (n,) is overwritten."""
        self.steps += 1
        m, v = state
        gradient *= 1 - self.beta1
        m *= self.beta1
        m += gradient
        gradient *= math.sqrt(1 - self.beta2) / (1 - self.beta1)
        gradient *= gradient
        v *= self.beta2
        v += gradient
        # sqrt(v^) + eps = (sqrt(v) + eps c) / c with c = sqrt(1 - b2^t): one division fewer per element
        correction = math.sqrt(1 - self.beta2**self.steps)
        np.sqrt(v, out=gradient)
        gradient += EPSILON * correction
        np.divide(m, gradient, out=gradient)
        gradient *= learning_rate * correction / (1 - self.beta1**self.steps)
        theta -= gradient

    def rest(self, steps: int) -> None:
        """Do nothing: untouched rows keep their moments."""


Optimizer = RMSProp | Adam
