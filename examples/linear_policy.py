"""A policy of one's own, in numpy: ``--policy examples.linear_policy:Linear``.

Each output is a sum of the observation's numbers, times weights, and of a bias.
"""

import numpy as np


class Linear:
    """See docs/custom.md: ``theta``, ``forward`` and ``backward``.

    Args:
        inputs: numbers of an observation.
        outputs: parameters of the action distribution: a logit for each action, or means and then log deviations.
        free: how many of these, the last ones, should not depend on the observation.
        rng: numpy Generator of the start, the same on every rank.
        hidden: the setting --hidden; not used here.
    """

    def __init__(self, inputs, outputs, free, rng, hidden):
        self._rows, self._columns, self._free = inputs + 1, outputs + 1, free
        self.theta = np.zeros(self._rows * self._columns, dtype=np.float32)

    def forward(self, observations):
        """(n, inputs) → (n, outputs + 1), the value last."""
        self._seen = np.append(observations, np.ones((len(observations), 1), np.float32), axis=1)
        return self._seen @ self.theta.reshape(self._rows, self._columns)

    def backward(self, d_outputs):
        """The gradient of sum(outputs * d_outputs), for the observations of the last ``forward``: as ``theta``."""
        gradient = self._seen.T @ d_outputs
        gradient[:-1, self._columns - 1 - self._free : -1] = 0  # free ones are their biases alone
        return gradient.ravel()
