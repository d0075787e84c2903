"""MLP policy on vectors: two networks with two tanh layers each, one for the actions and one for the value.

    h1 = tanh(x W1 + b1)    h2 = tanh(h1 W2 + b2)    y = h2 W3 + b3

This is the usual network of continuous control. The log standard deviations of a ``Gaussian`` are parameters that do
not depend on x. Sizes and initialisation follow Andrychowicz et al., "What Matters in On-Policy Reinforcement
Learning?" (2020): orthogonal, with gain 0.01 in the last layer of the actions.

It follows the protocol of custom policies in docs/custom.md.
"""

from math import sqrt
from typing import Any

import numpy as np

from pg_mpi.config.array_types import Floats


class MLP:
    """MLP policy; see docs/custom.md for ``theta``, ``forward`` and ``backward``.

    Args:
        inputs: size of an observation.
        outputs: number of parameters of the action distribution; the value follows them.
        free: number of these, at the end, that do not depend on the observation.
        rng: numpy Generator for the initialisation.
        hidden: units per layer.
    """

    def __init__(
        self, inputs: int, outputs: int, free: int, rng: np.random.Generator, hidden: int = 64, dtype: Any = np.float32
    ) -> None:
        self._free = free
        sizes = [(inputs, hidden), (hidden, hidden), (hidden, outputs - free)]
        shapes = [*sizes, *sizes[:2], (hidden, 1)]
        self.theta = np.zeros(sum(a * b + b for a, b in shapes) + free, dtype=dtype)
        self._layers = _views(self.theta, shapes)
        self._shapes = shapes
        for (weights, _), gain in zip(self._layers, (sqrt(2), sqrt(2), 0.01, sqrt(2), sqrt(2), 1.0)):
            weights[...] = gain * _orthogonal(weights.shape, rng)

    def forward(self, observations: Floats) -> Floats:
        """Return outputs and, last, the value: (n, inputs) → (n, outputs + 1)."""
        self._seen = [self._net(observations, self._layers[:3]), self._net(observations, self._layers[3:])]
        (*_, acts), (*_, value) = self._seen
        log_std = np.broadcast_to(self.theta[len(self.theta) - self._free :], (len(observations), self._free))
        return np.concatenate((acts, log_std, value), axis=1)

    def backward(self, d_outputs: Floats) -> Floats:
        """Return the gradient of sum(outputs * d_outputs) for the observations of the last ``forward``: (P,)."""
        gradient = np.empty_like(self.theta)
        into = _views(gradient, self._shapes)
        acts = d_outputs.shape[1] - 1 - self._free
        self._net_back(self._seen[0], self._layers[:3], d_outputs[:, :acts], into[:3])
        self._net_back(self._seen[1], self._layers[3:], d_outputs[:, -1:], into[3:])
        gradient[len(gradient) - self._free :] = d_outputs[:, acts:-1].sum(axis=0)
        return gradient

    def _net(self, x: Floats, layers: list[tuple[Floats, Floats]]) -> list[Floats]:
        """Return [x, h1, h2, y]."""
        (w1, b1), (w2, b2), (w3, b3) = layers
        h1 = np.tanh(x @ w1 + b1)
        h2 = np.tanh(h1 @ w2 + b2)
        return [x, h1, h2, h2 @ w3 + b3]

    def _net_back(
        self, seen: list[Floats], layers: list[tuple[Floats, Floats]], d: Floats, into: list[tuple[Floats, Floats]]
    ) -> None:
        for k in (2, 1, 0):
            d_weights, d_bias = into[k]
            np.matmul(seen[k].T, d, out=d_weights)
            d.sum(axis=0, out=d_bias)
            if k:
                d = (d @ layers[k][0].T) * (1 - seen[k] ** 2)


def _views(vector: Floats, shapes: list[tuple[int, int]]) -> list[tuple[Floats, Floats]]:
    """Return views (weights, bias) of each layer in a flat vector."""
    parts = np.split(vector, np.cumsum([size for a, b in shapes for size in (a * b, b)]))
    return [(weights.reshape(shape), bias) for weights, bias, shape in zip(parts[::2], parts[1::2], shapes)]


def _orthogonal(shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    """Return a random matrix with orthonormal rows or columns (Saxe et al., 2013)."""
    a, b = shape
    q, r = np.linalg.qr(rng.standard_normal((max(a, b), min(a, b))))
    q *= np.sign(np.diag(r))
    result: Floats = q if a >= b else q.T
    return result
