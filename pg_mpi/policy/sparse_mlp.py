"""Policy on sparse inputs: a two-layer perceptron with direct connections, in one flat parameter vector.

    z = x @ first + bias                          (width,) = (hidden + outputs,)
    h = max(z, floor)                             floor: 0 for hidden units, -inf for direct connections
    (logits, value) = h @ tail + head bias        (actions + 1,),  tail = [heads; identity] @ spread

``x`` is a set of active inputs, so ``x @ first`` is a sum of rows. The direct connections make every output also a
linear function of the inputs (Cheng et al., "Wide & Deep Learning", 2016): the effect of a single input is learned
without waiting for hidden units. ``spread`` is the identity but where a logit or the value is constantly 0.

An update works on the rows that a batch uses. Sampling sums rows of the same array (see ``SparseNetwork``).
"""

from collections.abc import Sequence
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from pg_mpi.config.array_types import Floats, Integers
from pg_mpi.policy.distributions import Categorical
from pg_mpi.policy.network import SparseNetwork
from pg_mpi.policy.running_norm import RunningNorm

INITIAL_BIAS = 0.1  # of hidden units


class SparseMLP:
    """Policy on sparse inputs: parameters, forward and backward pass.

    Args:
        inputs: number of inputs.
        hidden: number of hidden units.
        actions: number of actions A.
        sigmoid: whether the second of two actions has the logit 0, so that the first has a sigmoid probability.
        signed: whether the second half of the inputs has the negated weights of the first.
        plain: whether there are no direct connections, no biases and no value head; the value is 0.
        norm: of rewards, or None.

    Attributes:
        distribution: distribution of actions.
        rows, width: shape of the first layer. tail: number of parameters after it.
        theta: flat float vector: ``first`` (rows, width), then heads, hidden bias, head bias.
    """

    def __init__(
        self,
        inputs: int,
        hidden: int,
        actions: int,
        sigmoid: bool = False,
        signed: bool = False,
        plain: bool = False,
        norm: RunningNorm | None = None,
        dtype: Any = np.float32,
    ) -> None:
        self.inputs, self.hidden, self.actions, self.norm = inputs, hidden, actions, norm
        self.distribution = Categorical(actions)
        self.rows = inputs // 2 if signed else inputs
        self._signed, self._plain = signed, plain
        #: (outputs, A + 1), from outputs to logits and value.
        self._spread = np.eye(actions + 1, dtype=dtype)
        if plain:
            self._spread = self._spread[:actions]  # no output for the value
        if sigmoid:
            self._spread = np.delete(self._spread, 1, axis=0)  # none for the second action
        outputs = len(self._spread)
        direct = 0 if plain else outputs
        self.width = hidden + direct
        self._floor = np.repeat(np.array([0, -np.inf], dtype=dtype), [hidden, direct])
        self.tail = hidden * outputs + (0 if plain else hidden + outputs)  # parameters after the first layer
        self.theta = np.zeros(self.rows * self.width + self.tail, dtype=dtype)

    def views(self, vector: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Return views of a flat vector: first (rows, width), heads (hidden, outputs), hidden bias, head bias.

        The vector may have any number of rows. The biases are new zeros if the policy has none.
        """
        sizes = [vector.size - self.tail, self.hidden * len(self._spread), self.hidden]
        first, heads, bias, head_bias = np.split(vector, np.cumsum(sizes))
        if self._plain:
            bias, head_bias = np.zeros(self.hidden, vector.dtype), np.zeros(len(self._spread), vector.dtype)
        return first.reshape(-1, self.width), heads.reshape(self.hidden, -1), bias, head_bias

    def initialise(self, rng: np.random.Generator) -> None:
        """Initialise the heads with normal / sqrt(hidden); in a plain policy also the first layer, normal / sqrt(rows).

        Otherwise the first layer is 0: the heads break the symmetry of the hidden units, and a bias keeps them active.
        """
        first, heads, bias, _ = self.views(self.theta)
        if self._plain:
            first[...] = rng.standard_normal(first.shape) / sqrt(self.rows)
        heads[...] = rng.standard_normal(heads.shape) / sqrt(self.hidden)
        bias[...] = INITIAL_BIAS

    # -- playing ----------------------------------------------------------------------------------------

    def expand(self) -> SparseNetwork:
        """Return the ``SparseNetwork`` of the current parameters."""
        first, _, _, _ = self.views(self.theta)
        network = SparseNetwork(np.concatenate((first, -first)) if self._signed else first, self._floor)
        self.refresh(network, np.arange(0))
        return network

    def refresh(self, network: SparseNetwork, rows: Integers) -> None:
        """Update a network in which at most these rows and the parameters after the first layer are stale."""
        first, _, bias, head_bias = self.views(self.theta)
        if self._signed:
            network.table[rows], network.table[rows + self.rows] = first[rows], -first[rows]
        network.load(self._last_layer(self.theta), self._wide(bias), head_bias @ self._spread)

    def _wide(self, bias: Floats) -> Floats:
        """Return the hidden bias and zeros for the direct connections: (width,)."""
        return np.append(bias, np.zeros(self.width - self.hidden, dtype=bias.dtype))

    def _last_layer(self, theta: Floats) -> Floats:
        """Return the weights after the floor: (width, A + 1)."""
        heads = self.views(theta)[1] @ self._spread
        return heads if self._plain else np.concatenate((heads, self._spread))

    # -- learning ---------------------------------------------------------------------------------------

    def batch(self, trajectories: Sequence[Any]) -> csr_matrix:
        """Return the observations of trajectories: csr (n, rows)."""
        observed, counts = (np.concatenate([getattr(t, name) for t in trajectories]) for name in ("observed", "counts"))
        return self.gathered(observed, counts)

    def gathered(self, observed: Integers, counts: Integers) -> csr_matrix:
        """Return csr (n, rows) from the active inputs of all observations and the count of each."""
        starts, values = np.append(0, np.cumsum(counts)), np.ones(len(observed), dtype=self.theta.dtype)
        if self._signed:
            values[observed >= self.rows] = -1
            observed = observed % self.rows
        return csr_matrix((values, observed, starts), shape=(len(counts), self.rows))

    def forward(self, theta: Floats, x: csr_matrix) -> tuple[Floats, Floats]:
        """Return outputs (n, A + 1) and units (n, width) of a batch with the parameters ``theta``.

        ``theta`` and ``x`` may be restricted to some of the rows (see ``take`` and ``restrict``).
        """
        first, _, bias, head_bias = self.views(theta)
        units = x @ first
        units += self._wide(bias)
        np.maximum(units, self._floor, out=units)
        outputs: Floats = units @ self._last_layer(theta)
        outputs += head_bias @ self._spread
        return outputs, units

    def backward(self, theta: Floats, x: csr_matrix, hidden: Floats, d_outputs: Floats, out: Floats) -> None:
        """Write the gradient of a loss into the flat vector ``out``, from the derivative by the outputs."""
        d_units = d_outputs @ self._last_layer(theta).T
        d_units *= hidden > self._floor
        d_first, d_heads, d_bias, d_head_bias = self.views(out)
        d_first[...] = x.T @ d_units
        d_heads[...] = hidden[:, : self.hidden].T @ d_outputs @ self._spread.T
        d_bias[...] = d_units[:, : self.hidden].sum(axis=0)
        d_head_bias[...] = d_outputs.sum(axis=0) @ self._spread.T

    def operations(self, x: csr_matrix) -> int:
        """Return the floating-point operations of ``forward`` and ``backward``. The inputs have no gradient."""
        return 2 * self.width * (2 * int(x.nnz) + 3 * int(x.shape[0]) * (self.actions + 1))

    # -- parameter rows of an update --------------------------------------------------------------------

    def used_rows(self, x: csr_matrix) -> NDArray[np.uint8]:
        """Return which parameter rows a batch uses: uint8 (rows,), 1 if used."""
        used = np.zeros(self.rows, dtype=np.uint8)
        used[x.indices] = 1
        return used

    def restrict(self, x: csr_matrix, rows: Integers) -> csr_matrix:
        """Restrict a batch to ``rows``, which must include all rows that it uses: csr (n, len(rows))."""
        row_of = np.zeros(self.rows, dtype=np.int32)
        row_of[rows] = np.arange(len(rows), dtype=np.int32)
        return csr_matrix((x.data, row_of[x.indices], x.indptr), shape=(x.shape[0], len(rows)))

    def take(self, vector: Floats, rows: Integers) -> Floats:
        """Return the parameter rows ``rows`` of a flat vector, and the tail, as a flat vector."""
        cut = vector.size - self.tail
        return np.concatenate((vector[:cut].reshape(-1, self.width)[rows].ravel(), vector[cut:]))

    def put(self, vector: Floats, rows: Integers, part: Floats) -> None:
        """Write ``part``, as returned by ``take``, into a flat vector."""
        cut, part_cut = vector.size - self.tail, part.size - self.tail
        vector[:cut].reshape(-1, self.width)[rows] = part[:part_cut].reshape(-1, self.width)
        vector[cut:] = part[part_cut:]
