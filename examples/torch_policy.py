"""A policy of one's own, in torch: ``--policy examples.torch_policy:Net`` (extra: torch).

A module's parameters become parts of one numpy array, and so do its gradients; both travel by the trainer's Allreduce
like any others, and torch does not call MPI.
"""

import numpy as np
import torch


class Module:
    """A torch module in the place that docs/custom.md describes: subclass it and give it what ``build`` returns.

    Attributes:
        theta: float32 (P,), all parameters of the module, which are views of it.
    """

    def __init__(self, inputs, outputs, free, rng, hidden):
        torch.set_num_threads(1)  # one core for each rank
        torch.manual_seed(int(rng.integers(2**31)))
        self.module = self.build(inputs, outputs, free, hidden)
        parameters = list(self.module.parameters())
        self.theta = np.concatenate([each.detach().numpy().ravel() for each in parameters]).astype(np.float32)
        self._gradient = np.zeros_like(self.theta)
        begin = 0
        for each in parameters:
            part = slice(begin, begin + each.numel())
            each.data = torch.from_numpy(self.theta[part]).view_as(each)
            each.grad = torch.from_numpy(self._gradient[part]).view_as(each)
            begin = part.stop

    def build(self, inputs, outputs, free, hidden):
        """The module: float (n, inputs) → (n, outputs + 1), the value last."""
        raise NotImplementedError

    def forward(self, observations):
        """Outputs without a graph, since sampling needs no gradient."""
        self._seen = torch.from_numpy(np.ascontiguousarray(observations, dtype=np.float32))
        with torch.no_grad():
            return self.module(self._seen).numpy()

    def backward(self, d_outputs):
        """The gradient of sum(outputs * d_outputs), for the observations of the last ``forward``."""
        self._gradient[...] = 0
        self.module(self._seen).backward(torch.from_numpy(np.ascontiguousarray(d_outputs, dtype=np.float32)))
        return self._gradient


class Layers(torch.nn.Module):
    """Two layers that actions and value share; free outputs are a parameter of their own."""

    def __init__(self, inputs, outputs, free, hidden):
        super().__init__()
        layers = [torch.nn.Linear(inputs, hidden), torch.nn.Tanh(), torch.nn.Linear(hidden, hidden), torch.nn.Tanh()]
        self.body = torch.nn.Sequential(*layers)
        self.acts = torch.nn.Linear(hidden, outputs - free)
        self.value = torch.nn.Linear(hidden, 1)
        self.free = torch.nn.Parameter(torch.zeros(free))

    def forward(self, observations):
        inner = self.body(observations)
        return torch.cat((self.acts(inner), self.free.expand(len(inner), -1), self.value(inner)), dim=1)


class Net(Module):
    """``Layers``, as the trainer takes them."""

    def build(self, inputs, outputs, free, hidden):
        return Layers(inputs, outputs, free, hidden)
