"""The policy: a two-layer perceptron on sparse inputs, in one flat parameter vector.

    z = tie(x) @ first + bias                        (hidden,)
    h = max(0, z)
    (logits, value) = (h @ heads + head_bias) @ spread      (actions + 1,)

``x`` is a set of active inputs; ``tie`` says which rows of ``first`` make up the weights of each input (see
tying.py). Learning projects a batch on the parameter rows once, ``x @ tie``, and then works on those. Playing
expands the parameters once into a ``Network``, ``table = tie @ first``, and then sums rows of its table. Both
are the same function; only this file knows of shared weights and of what a logit is the sum of.
"""

from collections.abc import Sequence
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from pg_mpi.agent.heads import Categorical
from pg_mpi.agent.network import Network

Floats = NDArray[np.floating[Any]]
Integers = NDArray[np.integer[Any]]


class Policy:
    """Parameters, and what they mean.

    Args:
        tie: csr (inputs, rows).
        hidden: number of hidden units.
        actions: number of actions A.
        value: whether there is a value head; without one the value is 0.
        biases: whether the layers have biases.
        parts: (A, P), an action's logit is this sum of P outputs; without it, each action has an output of its own.
            [[1], [0]] makes a sigmoid of two actions.

    Attributes:
        heads: what the outputs mean.
        scaler: a ``Scaler`` of rewards, or None.
        theta: flat float vector: ``first`` (rows, hidden), then heads, hidden bias, head bias.
    """

    scaler = None

    def __init__(
        self,
        tie: csr_matrix,
        hidden: int,
        actions: int,
        value: bool = True,
        biases: bool = True,
        parts: NDArray[np.floating[Any]] | None = None,
        dtype: Any = np.float32,
    ) -> None:
        self.tie, self.hidden, self.actions, self.biases = tie, hidden, actions, biases
        self.heads = Categorical(actions)
        self.rows = tie.shape[1]
        self._users = tie.T.tocsr()  # the inputs that each parameter row is part of
        parts = np.eye(actions) if parts is None else np.asarray(parts)
        columns = parts.shape[1]
        self._spread = np.zeros((columns + value, actions + 1), dtype=dtype)  # outputs with parameters → logits, value
        self._spread[:columns, :actions] = parts.T
        self._spread[columns:, actions] = 1
        outputs = len(self._spread)
        self.tail = hidden * outputs + (hidden + outputs if biases else 0)  # parameters after the first layer
        self.theta = np.zeros(self.rows * hidden + self.tail, dtype=dtype)

    def views(self, vector: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """The parts of a flat vector: first (rows, hidden), heads (hidden, outputs), hidden bias, head bias.

        Any number of rows; the biases are empty where the policy has none.
        """
        cut = vector.size - self.tail
        outputs = len(self._spread)
        head_cut = cut + self.hidden * outputs
        biases = vector[head_cut:]
        return (
            vector[:cut].reshape(-1, self.hidden),
            vector[cut:head_cut].reshape(self.hidden, outputs),
            biases[: self.hidden],
            biases[self.hidden :],
        )

    def initialise(self, rng: np.random.Generator, scale: float, rows: Integers) -> None:
        """Random start: ``rows`` of the first layer normal * ``scale``, other rows 0, heads / sqrt(hidden)."""
        first, heads, _, _ = self.views(self.theta)
        first[rows] = rng.standard_normal((len(rows), self.hidden)) * scale
        heads[...] = rng.standard_normal(heads.shape) / sqrt(self.hidden)

    # -- playing ----------------------------------------------------------------------------------------

    def expand(self) -> Network:
        """The ``Network`` of the current parameters."""
        table = np.zeros((self.tie.shape[0], self.hidden), dtype=self.theta.dtype)
        network = Network(table, *self._tail())
        self.refresh(network, np.arange(self.rows))
        return network

    def refresh(self, network: Network, rows: Integers) -> None:
        """Bring a network up to date, since whose making no more than these parameter rows and the tail changed."""
        first, _, _, _ = self.views(self.theta)
        stale = np.zeros(len(network.table), dtype=bool)
        stale[self._users[rows].indices] = True
        inputs = stale.nonzero()[0]
        network.table[inputs] = self.tie[inputs] @ first
        network.bias, network.heads, network.head_bias = self._tail()

    def _tail(self) -> tuple[Floats | None, Floats, Floats | None]:
        """Bias, heads and head bias of a ``Network``."""
        _, _, bias, _ = self.views(self.theta)
        heads, head_bias = self._heads(self.theta)
        return (bias.copy(), heads, head_bias) if self.biases else (None, heads, None)

    def _heads(self, theta: Floats) -> tuple[Floats, Floats]:
        """Heads (hidden, A + 1) and their bias (A + 1,)."""
        _, heads, _, head_bias = self.views(theta)
        bias = head_bias @ self._spread if self.biases else np.zeros(self.actions + 1, dtype=theta.dtype)
        return heads @ self._spread, bias

    # -- learning ---------------------------------------------------------------------------------------

    def batch(self, lived: Sequence[Any]) -> csr_matrix:
        """The observations of trajectories, on the parameter rows: csr (n, rows)."""
        observed, counts = (np.concatenate([getattr(t, name) for t in lived]) for name in ("observed", "counts"))
        return self.gathered(observed, counts)

    def numbers(self, trajectory: Any) -> Floats:
        """What of a trajectory's observations is scaled: nothing, (n, 0)."""
        return np.empty((trajectory.length, 0))

    def gathered(self, observed: Integers, counts: Integers) -> csr_matrix:
        """Observations, the active inputs of all and how many each has, on the parameter rows: csr (n, rows)."""
        starts = np.append(0, np.cumsum(counts))
        ones, shape = np.ones(len(observed), dtype=self.theta.dtype), (len(counts), self.tie.shape[0])
        return self.project(csr_matrix((ones, observed, starts), shape=shape))

    def project(self, x: csr_matrix) -> csr_matrix:
        """A batch of observations, csr (n, inputs), on the parameter rows: csr (n, rows)."""
        return x @ self.tie

    def pick(self, x: csr_matrix, samples: Integers) -> csr_matrix:
        """Some samples of a projected batch, int (m,): csr (m, rows)."""
        return x[samples]

    def forward(self, theta: Floats, x: csr_matrix) -> tuple[Floats, Floats]:
        """Outputs (n, A + 1) and hidden layer (n, hidden) of a projected batch, with the parameters ``theta``.

        ``theta`` and ``x`` may be on some of the rows alone (``take``).
        """
        first, _, bias, _ = self.views(theta)
        hidden = x @ first
        if self.biases:
            hidden += bias
        np.maximum(hidden, 0, out=hidden)
        heads, head_bias = self._heads(theta)
        return hidden @ heads + head_bias, hidden

    def backward(self, theta: Floats, x: csr_matrix, hidden: Floats, d_outputs: Floats, out: Floats) -> None:
        """Write the gradient of a loss into the flat vector ``out``, from its derivative by the outputs."""
        heads, _ = self._heads(theta)
        d_hidden = d_outputs @ heads.T
        d_hidden *= hidden > 0
        d_first, d_heads, d_bias, d_head_bias = self.views(out)
        d_first[...] = x.T @ d_hidden
        d_heads[...] = hidden.T @ d_outputs @ self._spread.T
        if self.biases:
            d_bias[...] = d_hidden.sum(axis=0)
            d_head_bias[...] = d_outputs.sum(axis=0) @ self._spread.T

    def products(self, x: csr_matrix, hidden: Floats, outputs: int) -> int:
        """Multiplications of a ``forward`` of a projected batch."""
        return int(x.nnz) * self.hidden + hidden.size * (outputs + 1)

    # -- the rows that an update touches ----------------------------------------------------------------

    def used_rows(self, x: csr_matrix) -> NDArray[np.uint8]:
        """Which parameter rows a projected batch uses: uint8 (rows,), 1 where used."""
        used = np.zeros(self.rows, dtype=np.uint8)
        used[x.indices] = 1
        return used

    def restrict(self, x: csr_matrix, rows: Integers) -> csr_matrix:
        """A projected batch on ``rows`` alone, which must hold all that it uses: csr (n, len(rows))."""
        row_of = np.zeros(self.rows, dtype=np.int32)
        row_of[rows] = np.arange(len(rows), dtype=np.int32)
        return csr_matrix((x.data, row_of[x.indices], x.indptr), shape=(x.shape[0], len(rows)))

    def take(self, vector: Floats, rows: Integers) -> Floats:
        """The part of a flat vector that belongs to parameter rows ``rows``, and the tail: a flat vector."""
        cut = vector.size - self.tail
        return np.concatenate((vector[:cut].reshape(-1, self.hidden)[rows].ravel(), vector[cut:]))

    def put(self, vector: Floats, rows: Integers, part: Floats) -> None:
        """Write ``part``, as made by ``take``, back into a flat vector."""
        cut, part_cut = vector.size - self.tail, part.size - self.tail
        vector[:cut].reshape(-1, self.hidden)[rows] = part[:part_cut].reshape(-1, self.hidden)
        vector[cut:] = part[part_cut:]
