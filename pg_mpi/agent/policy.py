"""The policy: a two-layer perceptron on sparse inputs, in one flat parameter vector.

    z = sum of table[i] over active inputs i + bias          (width,)
    h = max(0, z)
    (logits, value) = h @ heads + head_bias                  (actions + 1,)

``table``, ``bias``, ``heads`` are the *network*: what is played and differentiated. The *parameters* are
what is learned, and the network is a linear function of them (``expand``), so the gradient of the parameters
is the adjoint applied to the network's gradient (``fold``). Weight sharing, the mirror symmetry and the
sigmoid's pinned logit live in that linear function and nowhere else.
"""

import math

import numpy as np

from pg_mpi.agent.tying import restrict


class Network:
    """Plain weights: ``table`` (inputs, width), ``bias`` (width,), ``heads`` (width, actions + 1), ``head_bias``.

    The last column of ``heads`` is the value. Also used for a gradient of the same shape.
    """

    def __init__(self, table, bias, heads, head_bias):
        self.table, self.bias, self.heads, self.head_bias = table, bias, heads, head_bias

    def think(self, observations):
        """Logits and value of single observations, each an index array: a list of lists of A + 1 floats."""
        z = np.empty((len(observations), self.table.shape[1]), dtype=self.table.dtype)
        for row, active in zip(z, observations):
            np.add.reduce(self.table.take(active, axis=0), axis=0, out=row)
        return self.outputs(z).tolist()

    def outputs(self, z):
        """Logits and value of pre-activations summed from ``table``: (n, width) → (n, actions + 1)."""
        z += self.bias
        np.maximum(z, 0, out=z)
        return z @ self.heads + self.head_bias

    def forward(self, x):
        """Batch pass. ``x``: csr (n, inputs). Returns outputs (n, actions + 1) and hidden (n, width)."""
        hidden = x @ self.table
        return self.outputs(hidden), hidden

    def backward(self, x, hidden, d_outputs):
        """The gradient of a loss, given its derivative by the outputs (n, actions + 1); a ``Network``."""
        d_hidden = d_outputs @ self.heads.T
        d_hidden *= hidden > 0
        return Network(x.T @ d_hidden, d_hidden.sum(axis=0), hidden.T @ d_outputs, d_outputs.sum(axis=0))

    def flops(self, steps, active):
        """Floating-point operations of a forward pass over ``steps`` samples with ``active`` inputs in all."""
        width, outputs = self.heads.shape
        return 2 * active * width + 2 * steps * width * (outputs + 1)


class Policy:
    """Parameters and how they make a network.

    Args:
        ties: one csr (inputs, rows) matrix, or two for a symmetric policy (the second one mirrored).
        hidden: units per tie.
        actions: number of actions A.
        swap: for a symmetric policy, the action that each action becomes in the mirror, length A.
        value: whether there is a value head; without one the value is 0.
        biases: whether the layers have biases.
        pinned: the last action's logit is 0, so that two actions make a sigmoid.

    Attributes:
        theta: flat float vector: ``first`` (rows, hidden), then hidden bias, heads, head bias.
    """

    def __init__(self, ties, hidden, actions, swap=None, value=True, biases=True, pinned=False, dtype=np.float32):
        self.ties, self.hidden, self.actions, self.swap = ties, hidden, actions, swap
        self.value, self.biases, self.pinned = value, biases, pinned
        self.rows = ties[0].shape[1]
        self.outputs = actions - pinned + value
        self._columns = [*range(actions - pinned), *([actions] if value else [])]
        self.theta = np.zeros(self.rows * hidden + self.tail, dtype=dtype)

    @property
    def tail(self):
        """How many parameters follow the first layer."""
        biases = self.hidden + self.outputs if self.biases else 0
        return self.hidden * self.outputs + biases

    def views(self, vector):
        """The parts of a flat vector: first (rows, hidden), hidden bias, heads (hidden, outputs), head bias.

        A part that the policy lacks is None.
        """
        cuts = [self.rows * self.hidden, self.hidden * self.outputs]
        if self.biases:
            cuts += [self.hidden, self.outputs]
        first, heads, *biases = np.split(vector, np.cumsum(cuts)[:-1])
        bias, head_bias = biases or (None, None)
        return first.reshape(-1, self.hidden), bias, heads.reshape(self.hidden, -1), head_bias

    def initialise(self, rng, scale, fine):
        """Random start: rows ``fine`` of the first layer normal * ``scale``, shared rows 0, heads / sqrt(hidden)."""
        first, _, heads, _ = self.views(self.theta)
        first[fine] = rng.standard_normal((len(fine), self.hidden)) * scale
        heads[...] = rng.standard_normal(heads.shape) / math.sqrt(self.hidden)

    def expand(self):
        """The ``Network`` of the current parameters."""
        first, bias, heads, head_bias = self.views(self.theta)
        dtype, copies = self.theta.dtype, len(self.ties)
        wide = np.zeros((self.hidden, self.actions + 1), dtype=dtype)
        wide[:, self._columns] = heads
        tail = np.zeros(self.actions + 1, dtype=dtype)
        if self.biases:
            tail[self._columns] = head_bias
        if copies == 2:
            wide, tail = np.concatenate((wide, wide[:, self._mirrored])), tail + tail[self._mirrored]
        table = np.empty((self.ties[0].shape[0], copies * self.hidden), dtype=dtype)
        for copy, tie in enumerate(self.ties):
            table[:, copy * self.hidden : (copy + 1) * self.hidden] = tie @ first
        bias = np.tile(bias, copies) if self.biases else np.zeros(copies * self.hidden, dtype=dtype)
        return Network(table, bias, wide, tail)

    def fold(self, gradient, out):
        """Write the parameters' gradient into the flat vector ``out``, from the network's gradient."""
        first, bias, heads, head_bias = self.views(out)
        halves = [slice(c * self.hidden, (c + 1) * self.hidden) for c in range(len(self.ties))]
        first[...] = sum(tie.T @ gradient.table[:, half] for tie, half in zip(self.ties, halves))
        wide, tail = gradient.heads[halves[0]], gradient.head_bias
        if len(halves) == 2:
            wide = wide + gradient.heads[halves[1]][:, self._mirrored]
            tail = tail + tail[self._mirrored]
        heads[...] = wide[:, self._columns]
        if self.biases:
            bias[...] = sum(gradient.bias[half] for half in halves)
            head_bias[...] = tail[self._columns]

    @property
    def _mirrored(self):
        return [*self.swap, self.actions]

    def rows_of(self, inputs):
        """Which parameter rows some inputs use: uint8 (rows,), 1 where used."""
        used = np.zeros(self.rows, dtype=np.uint8)
        for tie in self.ties:
            used[tie[inputs].indices] = 1
        return used

    def restricted(self, inputs, rows):
        """A policy on the inputs ``inputs`` and the parameter rows ``rows`` alone, with a copy of them.

        Its gradient is this policy's gradient on samples whose active inputs are all among ``inputs``; all
        other rows' gradients are zero.
        """
        row_of = np.zeros(self.rows, dtype=np.int32)
        row_of[rows] = np.arange(len(rows))
        ties = [restrict(tie, inputs, row_of, len(rows)) for tie in self.ties]
        part = Policy(
            ties, self.hidden, self.actions, self.swap, self.value, self.biases, self.pinned, self.theta.dtype
        )
        part.theta[...] = self.take(self.theta, rows)
        return part

    def take(self, vector, rows):
        """The part of a flat vector that belongs to parameter rows ``rows``, and the tail."""
        cut = self.rows * self.hidden
        return np.concatenate((vector[:cut].reshape(-1, self.hidden)[rows].ravel(), vector[cut:]))

    def put(self, vector, rows, part):
        """Write ``part``, as made by ``take``, back into a flat vector."""
        cut = self.rows * self.hidden
        vector[:cut].reshape(-1, self.hidden)[rows] = part[: len(rows) * self.hidden].reshape(-1, self.hidden)
        vector[cut:] = part[len(rows) * self.hidden :]


def sample(logits, uniform):
    """Draw from softmax(logits) with one uniform number: (action, log-probability).

    Plain floats: for a handful of actions this beats numpy by far.
    """
    top = max(logits)
    weights = [math.exp(logit - top) for logit in logits]
    total = sum(weights)
    rest = uniform * total
    for action, weight in enumerate(weights):  # noqa: B007 the last one stands if rounding leaves a rest
        rest -= weight
        if rest < 0:
            break
    return action, logits[action] - top - math.log(total)
