"""Policy from any differentiable function of observations, built-in or custom.

The function has parameters ``theta`` and the methods ``forward`` and ``backward``, see docs/custom.md. Its head
interprets the outputs. Observations are normalised before ``forward``. Every update changes all parameters.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pg_mpi.config.array_types import Floats
from pg_mpi.config.errors import RunError
from pg_mpi.policy.distributions import Head
from pg_mpi.policy.running_norm import RunningNorm


class Function(Protocol):
    """Protocol of a custom policy.

    Attributes:
        theta: float32 (P,), all parameters. ``forward`` computes with its current content.
    """

    theta: Floats

    def forward(self, observations: Any) -> Floats:
        """Return outputs and, last, the value: float (n, inputs), or csr of 0s and 1s → (n, outputs + 1)."""

    def backward(self, d_outputs: Floats) -> Floats:
        """Return the gradient of sum(outputs * d_outputs) for the observations of the last ``forward``: (P,)."""


class CustomPolicy:
    """A ``Function`` and its head, with the interfaces of ``SparseMLP`` and ``SparseNetwork``.

    Args:
        inputs: size of an observation, or number of inputs that can be active.
        sparse: whether observations are sets of active inputs.
        norm: ``RunningNorm`` of observations and rewards, or None.
        scales: whether observations are normalised.

    Attributes:
        theta: float32 (P,), the parameters. The function's own ``theta`` is a working copy.
    """

    rows = 0  # no parameters belong to single inputs

    def __init__(
        self, function: Function, head: Head, inputs: int, sparse: bool, norm: RunningNorm | None, scales: bool
    ) -> None:
        self._name = f"policy {type(function).__name__}"
        self.theta = self._checked(getattr(function, "theta", None))
        self.distribution, self.norm = head, norm
        self._function, self._inputs, self._sparse, self._scales = function, inputs, sparse, scales
        self._holds: Floats | None = None  # the array that was last copied to the function

    def _checked(self, theta: Any) -> Floats:
        """Return a copy of a function's parameters. Raises ``RunError`` if they are not float32 (P,)."""
        if not (isinstance(theta, np.ndarray) and theta.ndim == 1 and theta.dtype == np.float32 and theta.size):
            kind = f"{theta.dtype} {theta.shape}" if isinstance(theta, np.ndarray) else type(theta).__name__
            raise RunError(f"{self._name}: theta must be a numpy array, float32 (P,), not {kind}")
        return theta.copy()

    def try_out(self) -> None:
        """Test the function on two observations of zeros. Raises its exceptions, and ``RunError`` for a wrong shape."""
        nothing = np.zeros(0 if self._sparse else self._inputs, dtype=np.int64 if self._sparse else np.float32)
        x = self._stacked([nothing, nothing])
        outputs, hidden = self.forward(self.theta, x)
        self.backward(self.theta, x, hidden, np.zeros_like(outputs), np.empty_like(self.theta))

    # -- playing ----------------------------------------------------------------------------------------

    def expand(self) -> "CustomPolicy":
        """Return the policy itself, which also samples actions."""
        return self

    def refresh(self, network: "CustomPolicy", rows: Any) -> None:
        """Mark the function's copy of the parameters as stale."""
        network._holds = None

    def sample(
        self, observations: Sequence[Any], generators: Sequence[np.random.Generator], preferences: Sequence[Any] = ()
    ) -> list[tuple[float, Any, float]]:
        """See ``Network``."""
        outputs = self._outputs(observations)
        actions, log_probs = self.distribution.sample(outputs[:, :-1], generators)
        return list(zip(outputs[:, -1].tolist(), list(actions), log_probs.tolist()))

    def likeliest(self, observation: Any) -> Any:
        """Return the most probable action."""
        return self.distribution.likeliest(self._outputs([observation])[:, :-1])[0]

    def value(self, observation: Any) -> float:
        """Return the value of a state."""
        return float(self._outputs([observation])[0, -1])

    def flops(self, steps: int, active: int) -> int:
        """Return the floating-point operations of ``steps`` forward passes, each parameter used once."""
        return 2 * steps * self.theta.size

    def _outputs(self, observations: Sequence[Any]) -> Floats:
        if self._holds is not self.theta:
            self._function.theta[...] = self.theta
            self._holds = self.theta
        outputs = self._forward(self._stacked(observations))
        if not np.isfinite(outputs).all():
            raise RunError(f"{self._name}: forward gave numbers that are not finite")
        return outputs

    def _forward(self, x: Any) -> Floats:
        """Return the function's outputs. Raises ``RunError`` for a wrong shape."""
        outputs: Floats = np.asarray(self._function.forward(x))
        wanted = x.shape[0], self.distribution.outputs + 1
        if outputs.shape != wanted:
            raise RunError(f"{self._name}: forward gave {outputs.shape}, not {wanted}")
        return outputs

    # -- learning ---------------------------------------------------------------------------------------

    def batch(self, trajectories: Sequence[Any]) -> Any:
        """Return the observations of trajectories as the function takes them: float (n, inputs), or csr."""
        return self._stacked([seen for trajectory in trajectories for seen in trajectory.seen])

    def _stacked(self, observations: Sequence[Any]) -> Any:
        if self._sparse:
            from scipy.sparse import csr_matrix

            starts = np.cumsum([0, *map(len, observations)])
            indices = np.concatenate([*observations, np.empty(0, dtype=np.int64)])
            ones = np.ones(len(indices), dtype=np.float32)
            return csr_matrix((ones, indices, starts), shape=(len(observations), self._inputs))
        stacked = np.array(observations, dtype=np.float32).reshape(len(observations), self._inputs)
        return self.norm.scaled(stacked) if self.norm and self._scales else stacked

    def forward(self, theta: Floats, x: Any) -> tuple[Floats, None]:
        """Return the outputs (n, A + 1) of a batch with the parameters ``theta``."""
        self._function.theta[...] = theta
        self._holds = None
        return self._forward(x), None

    def backward(self, theta: Floats, x: Any, hidden: None, d_outputs: Floats, out: Floats) -> None:
        """Write the gradient of a loss into the flat vector ``out``, from its derivative by the last outputs.

        Raises ``RunError`` for a gradient of a wrong size.
        """
        gradient = self._function.backward(d_outputs)
        if np.shape(gradient) != out.shape:
            raise RunError(f"{self._name}: backward gave {np.shape(gradient)}, and theta is {out.shape}")
        out[...] = gradient

    def operations(self, x: Any) -> int:
        """Return the floating-point operations of ``forward`` and ``backward``, each parameter used three times."""
        return 6 * int(x.shape[0]) * self.theta.size

    # -- parameter rows: none ---------------------------------------------------------------------------

    def used_rows(self, x: Any) -> NDArray[np.uint8]:
        """Return no rows: uint8 (0,)."""
        return np.zeros(0, dtype=np.uint8)

    def restrict(self, x: Any, rows: Any) -> Any:
        """Return the batch unchanged."""
        return x

    def take(self, vector: Floats, rows: Any) -> Floats:
        """Return a copy of the whole flat vector."""
        return vector.copy()

    def put(self, vector: Floats, rows: Any, part: Floats) -> None:
        """Write ``part`` over the whole flat vector."""
        vector[...] = part
