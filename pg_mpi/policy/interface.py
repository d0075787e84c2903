"""The protocols of policies: the learning side, on batches, and the sampling side, on single observations."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pg_mpi.config.array_types import Floats
from pg_mpi.policy.distributions import Head
from pg_mpi.policy.running_norm import RunningNorm


class Network(Protocol):
    """The policy as rollouts use it. ``SparseNetwork`` and ``CustomPolicy`` follow it."""

    def sample(
        self,
        observations: Sequence[Any],
        generators: Sequence[np.random.Generator],
        preferences: Sequence[Sequence[float] | None] = (),
    ) -> list[tuple[float, Any, float]]:
        """Draw an action for each observation, with its own generator: (value, action, log-probability) each.

        ``preferences``, floats or None for each, are added to the logits before sampling. The log-probability includes
        them. Other policies than ``SparseMLP`` get only None.
        """

    def likeliest(self, observation: Any) -> Any:
        """The most probable action."""

    def value(self, observation: Any) -> float:
        """The value of a state."""

    def flops(self, steps: int, active: int) -> int:
        """Floating-point operations of ``steps`` samples with ``active`` active inputs in all."""


class Policy(Protocol):
    """Parameters, and their gradient. ``SparseMLP`` and ``CustomPolicy`` follow it.

    A batch ``x`` is whatever ``batch`` returns; ``x[samples]``, int (m,), selects samples. Parameters that belong to
    single inputs lie in ``rows`` rows. An update works on the rows that it uses.

    Attributes:
        theta: flat float vector of all parameters, (P,).
        rows: number of parameter rows; 0 if every update changes all parameters.
        distribution: of actions.
        norm: of observations and rewards, or None.
    """

    theta: Floats
    rows: int
    norm: RunningNorm | None

    @property
    def distribution(self) -> Head: ...

    def expand(self) -> Network:
        """The ``Network`` of the current parameters."""

    def refresh(self, network: Any, rows: Any) -> None:
        """Update a network of which at most ``rows`` and the parameters without rows are out of date."""

    def batch(self, trajectories: Sequence[Any]) -> Any:
        """The observations of trajectories, n in all."""

    def forward(self, theta: Floats, x: Any) -> tuple[Floats, Any]:
        """Outputs (n, actions + 1), the value last, and whatever ``backward`` needs.

        ``theta``: flat, all parameters, or those that ``take`` returns for the rows of a restricted ``x``.
        """

    def backward(self, theta: Floats, x: Any, hidden: Any, d_outputs: Floats, out: Floats) -> None:
        """Write the gradient of a loss into ``out``, shaped as ``theta``, from its derivative by the outputs."""

    def operations(self, x: Any) -> int:
        """Floating-point operations of ``forward`` and ``backward``."""

    def used_rows(self, x: Any) -> NDArray[np.uint8]:
        """Which rows a batch uses: uint8 (rows,), 1 where used."""

    def restrict(self, x: Any, rows: Any) -> Any:
        """The batch on ``rows`` alone, which must hold all that it uses."""

    def take(self, vector: Floats, rows: Any) -> Floats:
        """The part of a flat vector on ``rows``, and the parameters without rows: a flat copy."""

    def put(self, vector: Floats, rows: Any, part: Floats) -> None:
        """Write ``part``, as returned by ``take``, into a flat vector."""
