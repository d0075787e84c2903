"""Optimizers on flat vectors, in place.

``state`` is float32 (k, n): what the optimizer remembers of each parameter. A step works on any slice of
the vectors, so an update can be done on the rows that its samples touched alone; ``rest`` then does to the
other rows what steps with a zero gradient would have done. ``forget`` rounds to zero what no longer counts.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]

FORGOTTEN = 1e-30  # its root is nothing beside epsilon, and 170 steps of Adam make no subnormal number of it


def forget(state: Floats) -> None:
    """Round to zero, in place, what is too small to move a weight.

    What a unit that is off remembers fades by a factor a step. Below 1e-38 a float32 is no longer normal, and a
    processor may take several times as long to divide such numbers.
    """
    state *= np.abs(state) >= FORGOTTEN


class RMSProp:
    """c <- d c + (1 - d) g^2;  theta <- theta - lr g / (sqrt(c) + eps).

    Source: Tieleman & Hinton (2012), with eps outside the root as in Karpathy's Pong.
    """

    slots = 1

    def __init__(self, parameters: int, decay: float = 0.99, epsilon: float = 1e-5, dtype: Any = np.float32) -> None:
        self.state: Floats = np.zeros((self.slots, parameters), dtype=dtype)
        self.steps = 0
        self.decay, self.epsilon = decay, epsilon

    def step(self, theta: Floats, gradient: Floats, state: Floats, learning_rate: float) -> None:
        """One step in place on ``theta`` (n,) with ``state`` (1, n); ``gradient`` (n,) is overwritten."""
        self.steps += 1
        (cache,) = state
        cache *= self.decay
        cache += (1 - self.decay) * gradient * gradient
        gradient /= np.sqrt(cache) + self.epsilon
        gradient *= learning_rate
        theta -= gradient

    def rest(self, steps: int) -> None:
        """Decay the whole cache as ``steps`` zero gradients do; touched rows are written over afterwards."""
        self.state *= self.decay**steps


class Adam:
    """m <- b1 m + (1-b1) g;  v <- b2 v + (1-b2) g^2;  theta <- theta - lr m^ / (sqrt(v^) + eps).

    m^ and v^ are m and v over 1 - b^t. Source: Kingma & Ba (2015), algorithm 1. Rows that an update's samples
    did not touch keep their moments and stay where they are (lazy Adam), where the dense method would let
    them coast on their momentum.
    """

    slots = 2

    def __init__(
        self,
        parameters: int,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-5,
        dtype: Any = np.float32,
    ) -> None:
        self.state: Floats = np.zeros((self.slots, parameters), dtype=dtype)
        self.steps = 0
        self.beta1, self.beta2, self.epsilon = beta1, beta2, epsilon

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
        gradient += self.epsilon * correction
        np.divide(m, gradient, out=gradient)
        gradient *= learning_rate * correction / (1 - self.beta1**self.steps)
        theta -= gradient

    def rest(self, steps: int) -> None:
        """Nothing: untouched rows keep their moments."""
