"""Correct and faulty policies for ``--policy own_policies:NAME``."""

import numpy as np

from examples.linear_policy import Linear


class ShortGradient(Linear):
    """The gradient lacks a parameter."""

    def backward(self, d_outputs):
        return super().backward(d_outputs)[:-1]


class LateShortGradient(Linear):
    """The gradient lacks a parameter from the tenth call on."""

    calls = 0

    def backward(self, d_outputs):
        self.calls += 1
        gradient = super().backward(d_outputs)
        return gradient if self.calls < 10 else gradient[:-1]


class NanOutputs(Linear):
    """The outputs are NaN after the first update."""

    def forward(self, observations):
        outputs = super().forward(observations)
        return outputs * np.nan if self.theta.any() else outputs


class NeedsRows(Linear):
    """The highest output of the batch is subtracted, which needs a batch."""

    def forward(self, observations):
        outputs = super().forward(observations)
        return outputs - 0 * outputs.max(axis=0)


class BrokenInit(Linear):
    """The constructor raises."""

    def __init__(self, *sizes):
        raise KeyError("no such layer")


class NoGradient(Linear):
    """The gradient is None."""

    def backward(self, d_outputs):
        return None


class ListParameters(Linear):
    """The parameters are a list."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.theta = self.theta.tolist()


class Sparse:
    """Linear in the active inputs, which are a sparse matrix."""

    def __init__(self, inputs, outputs, free, rng, hidden):
        self._shape = inputs, outputs + 1
        self.theta = (0.01 * rng.standard_normal(inputs * (outputs + 1))).astype(np.float32)

    def forward(self, observations):
        self._observations = observations
        return observations @ self.theta.reshape(self._shape)

    def backward(self, d_outputs):
        return (self._observations.T @ d_outputs).ravel()
