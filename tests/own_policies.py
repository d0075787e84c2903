"""Policies that go right and wrong, for ``--policy own_policies:NAME``."""

import numpy as np

from examples.linear_policy import Linear


class Short(Linear):
    """Its gradient lacks a parameter."""

    def backward(self, d_outputs):
        return super().backward(d_outputs)[:-1]


class LateShort(Linear):
    """Its gradient lacks a parameter, after a while."""

    calls = 0

    def backward(self, d_outputs):
        self.calls += 1
        gradient = super().backward(d_outputs)
        return gradient if self.calls < 10 else gradient[:-1]


class Careless(Linear):
    """Its outputs are no numbers once it has learned something."""

    def forward(self, observations):
        outputs = super().forward(observations)
        return outputs * np.nan if self.theta.any() else outputs


class Broken(Linear):
    def __init__(self, *sizes):
        raise KeyError("no such layer")


class Silent(Linear):
    """It gives no gradient."""

    def backward(self, d_outputs):
        return None


class Wooden(Linear):
    """Its parameters are no array."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.theta = self.theta.tolist()


class Sparse:
    """Linear in active inputs, which come as a sparse matrix."""

    def __init__(self, inputs, outputs, free, rng, hidden):
        self._shape = inputs, outputs + 1
        self.theta = (0.01 * rng.standard_normal(inputs * (outputs + 1))).astype(np.float32)

    def forward(self, observations):
        self._seen = observations
        return observations @ self.theta.reshape(self._shape)

    def backward(self, d_outputs):
        return (self._seen.T @ d_outputs).ravel()
