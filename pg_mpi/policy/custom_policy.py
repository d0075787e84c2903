"""A policy that is any differentiable function of its observations, ours or a user's, as playing and learning see it.

What it must have is written down in docs/own.md: parameters ``theta``, ``forward`` and ``backward``. What an output
means is said by its head, observations are scaled before it sees them, and every update changes all of its parameters.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from pg_mpi.config.errors import RunError
from pg_mpi.policy.running_norm import RunningNorm

Floats = NDArray[np.floating[Any]]


class Unfit(TypeError):
    """Parameters that cannot be exchanged."""


class Function(Protocol):
    """What a policy of one's own is made of.

    Attributes:
        theta: float32 (P,), all parameters; whatever is written into it, the next ``forward`` computes with.
    """

    theta: Floats

    def forward(self, observations: Any) -> Floats:
        """Outputs and, last, the value: float (n, inputs), or csr of 0s and 1s → (n, outputs + 1)."""

    def backward(self, d_outputs: Floats) -> Floats:
        """The gradient of sum(outputs * d_outputs), for the observations of the last ``forward``: (P,)."""


class CustomPolicy:
    """A ``Function`` with its head, in the place of a ``SparseMLP`` and of its ``Network``.

    Args:
        inputs: numbers of an observation, or how many inputs may be active.
        sparse: whether observations are sets of active inputs.
        norm: of observations and of rewards, or None.
        scales: whether observations are scaled.

    Attributes:
        theta: float32 (P,), the parameters. The function's own are a copy to compute with.
    """

    rows = 0  # parameters that belong to some inputs alone

    def __init__(
        self, function: Function, head: Any, inputs: int, sparse: bool, norm: RunningNorm | None, scales: bool
    ) -> None:
        self.theta = _checked(getattr(function, "theta", None))
        self.distribution, self.actions, self.norm = head, head.outputs, norm
        self._function, self._inputs, self._sparse, self._scales = function, inputs, sparse, scales
        self._holds: Floats | None = None  # whose numbers the function computes with

    def try_out(self) -> None:
        """Raise what the function raises, or ``RunError`` for what it gives, of two observations of zeros."""
        nothing = np.zeros(0 if self._sparse else self._inputs, dtype=np.int64 if self._sparse else np.float32)
        x = self._stacked([nothing, nothing])
        outputs, hidden = self.forward(self.theta, x)
        self.backward(self.theta, x, hidden, np.zeros_like(outputs), np.empty_like(self.theta))

    # -- playing ----------------------------------------------------------------------------------------

    def expand(self) -> "CustomPolicy":
        """What plays: itself."""
        return self

    def refresh(self, network: "CustomPolicy", rows: Any) -> None:
        """The parameters have changed."""
        network._holds = None

    def act(
        self, observations: Sequence[Any], chances: Sequence[np.random.Generator]
    ) -> list[tuple[float, Any, float]]:
        """Draw an action for each observation, with its own generator: (value, action, log-probability) each."""
        outputs = self._outputs(observations)
        actions, log_probs = self.distribution.draw(outputs[:, :-1], chances)
        return list(zip(outputs[:, -1].tolist(), list(actions), log_probs.tolist()))

    def likeliest(self, observation: Any) -> Any:
        """The most probable action."""
        return self.distribution.likeliest(self._outputs([observation])[:, :-1])[0]

    def value(self, observation: Any) -> float:
        """The value of a state."""
        return float(self._outputs([observation])[0, -1])

    def flops(self, steps: int, active: int) -> int:
        """Floating-point operations of ``steps`` thoughts, each parameter once."""
        return 2 * steps * self.theta.size

    def _outputs(self, observations: Sequence[Any]) -> Floats:
        if self._holds is not self.theta:
            self._function.theta[...] = self.theta
            self._holds = self.theta
        outputs = self._forward(self._stacked(observations))
        if not np.isfinite(outputs).all():
            raise RunError("the policy's forward gave numbers that are not finite")
        return outputs

    def _forward(self, x: Any) -> Floats:
        """Outputs of the function. Raises ``RunError`` for those of another shape."""
        outputs: Floats = self._function.forward(x)
        wanted = x.shape[0], self.distribution.outputs + 1
        if np.shape(outputs) != wanted:
            raise RunError(f"the policy's forward gave {np.shape(outputs)}, not {wanted}")
        return outputs

    # -- learning ---------------------------------------------------------------------------------------

    def batch(self, lived: Sequence[Any]) -> Any:
        """The observations of trajectories, as the function takes them: float (n, inputs), or csr."""
        return self._stacked([seen for trajectory in lived for seen in trajectory.seen])

    def numbers(self, trajectory: Any) -> Floats:
        """What of a trajectory's observations is scaled: float32 (n, inputs), or (n, 0) of active inputs."""
        if self._sparse:
            return np.empty((trajectory.length, 0), dtype=np.float32)
        return np.array(trajectory.seen, dtype=np.float32).reshape(trajectory.length, self._inputs)

    def _stacked(self, observations: Sequence[Any]) -> Any:
        if self._sparse:
            starts = np.cumsum([0, *map(len, observations)])
            indices = np.concatenate([*observations, np.empty(0, dtype=np.int64)])
            ones = np.ones(len(indices), dtype=np.float32)
            return csr_matrix((ones, indices, starts), shape=(len(observations), self._inputs))
        stacked = np.array(observations, dtype=np.float32).reshape(len(observations), self._inputs)
        return self.norm.scaled(stacked) if self.norm and self._scales else stacked

    def pick(self, x: Any, samples: Any) -> Any:
        """Some samples of a batch, int (m,)."""
        return x[samples]

    def forward(self, theta: Floats, x: Any) -> tuple[Floats, None]:
        """Outputs (n, A + 1) of a batch with the parameters ``theta``."""
        self._function.theta[...] = theta
        self._holds = None
        return self._forward(x), None

    def backward(self, theta: Floats, x: Any, hidden: None, d_outputs: Floats, out: Floats) -> None:
        """Write the gradient of a loss into the flat vector ``out``, after ``forward``, from its derivative.

        Raises ``RunError`` for a gradient of another size.
        """
        gradient = self._function.backward(d_outputs)
        if np.shape(gradient) != out.shape:
            raise RunError(f"the policy's backward gave {np.shape(gradient)}, and theta is {out.shape}")
        out[...] = gradient

    def products(self, x: Any, hidden: None, outputs: int) -> int:
        """Multiplications of a ``forward`` of a batch."""
        return int(x.shape[0]) * self.theta.size

    # -- no rows to choose from -------------------------------------------------------------------------

    def used_rows(self, x: Any) -> NDArray[np.uint8]:
        """No rows: uint8 (0,)."""
        return np.zeros(0, dtype=np.uint8)

    def restrict(self, x: Any, rows: Any) -> Any:
        """The batch as it is."""
        return x

    def take(self, vector: Floats, rows: Any) -> Floats:
        """A copy of the whole flat vector."""
        return vector.copy()

    def put(self, vector: Floats, rows: Any, part: Floats) -> None:
        """Write ``part`` over the whole flat vector."""
        vector[...] = part


def _checked(theta: Any) -> Floats:
    """A copy of a function's parameters. Raises ``Unfit`` for what cannot be exchanged."""
    if not (isinstance(theta, np.ndarray) and theta.ndim == 1 and theta.dtype == np.float32 and theta.size):
        kind = f"{theta.dtype} {theta.shape}" if isinstance(theta, np.ndarray) else type(theta).__name__
        raise Unfit(f"a policy's theta must be a numpy array, float32 (P,), not {kind}")
    return theta.copy()
