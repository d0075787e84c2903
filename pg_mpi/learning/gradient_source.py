"""Protocol of the gradient sources of an update."""

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pg_mpi.learning.sample_groups import SampleGroup
from pg_mpi.learning.update_buffers import UpdateBuffers

State = tuple[dict[str, Any], Mapping[str, Any]]  # for a checkpoint: (arrays, JSON-able dict)
RankState = tuple[int, dict[str, Any], Mapping[str, Any]]  # of a saved run: (rank, arrays, JSON-able dict)


class Step(Protocol):
    """``Learner.step``."""

    def __call__(self, buffers: UpdateBuffers, weight: float, limit: float = ...) -> None:
        """Exchange the gradient in ``buffers`` and take an optimizer step. Collective."""


class GradientSource(Protocol):
    """Samples, and the optimizer steps along their gradients.

    A ``Learner`` calls ``prepare``, ``used_rows``, ``restrict``, ``learn``, ``metrics`` and ``finish`` in this order,
    once per update. Every rank has the same sources in the same order. A source may have no samples on a rank.
    """

    def prepare(self, groups: list[SampleGroup]) -> None:
        """Take the samples of this update. ``groups``: this rank's groups of the round."""

    def used_rows(self) -> NDArray[np.uint8]:
        """Parameter rows that the samples use: uint8 (rows,), 1 where used."""

    def restrict(self, rows: NDArray[np.int64]) -> None:
        """Reduce the samples to the parameter rows of the update."""

    def learn(self, buffers: UpdateBuffers, step: Step) -> None:
        """Write gradients into ``buffers`` and call ``step`` after each. Collective: every rank must call this."""

    def metrics(self) -> dict[str, Any]:
        """Means over the samples of all ranks. Collective: every rank must call this."""

    def finish(self) -> None:
        """Finish the update. Called when it is complete on all ranks."""

    def state(self) -> State | None:
        """State for a checkpoint: (arrays, JSON-able dict), or None if the source has none."""

    def restore(self, states: list[RankState]) -> None:
        """Restore from the ``state`` of a saved run's ranks: (rank, arrays, dict) each."""
