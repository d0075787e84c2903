"""Base class of the gradient sources of an update."""

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pg_mpi.config.settings import TrainConfig
from pg_mpi.learning.phases import PhaseTimer
from pg_mpi.learning.reproducible_sum import on_grid
from pg_mpi.learning.sample_groups import SampleGroup
from pg_mpi.learning.update_buffers import UpdateBuffers
from pg_mpi.mpi.interface import Collectives
from pg_mpi.policy.interface import Policy

State = tuple[dict[str, Any], Mapping[str, Any]]  # for a checkpoint: (arrays, JSON-able dict)
RankState = tuple[int, dict[str, Any], Mapping[str, Any]]  # of a saved run: (rank, arrays, JSON-able dict)


class Step(Protocol):
    """``Learner.step``."""

    def __call__(self, buffers: UpdateBuffers, weight: float, limit: float = ...) -> None:
        """Exchange the gradient in ``buffers`` and take an optimizer step. Collective."""


class GradientSource:
    """Samples, and the optimizer steps along their gradients. ``learn`` is the subclass's; the rest may be extended.

    A ``Learner`` calls ``prepare``, ``used_rows``, ``restrict``, ``learn``, ``metrics`` and ``finish`` in this order,
    once per update. Every rank has the same sources in the same order. A source may have no samples on a rank.

    Attributes:
        NAMES: of the metrics.
        _batches: the samples, set by ``prepare``; the ``x`` of each is a batch of the policy.
    """

    NAMES: tuple[str, ...] = ()
    _batches: list[Any]

    def __init__(self, policy: Policy, config: TrainConfig, world: Collectives, phases: PhaseTimer) -> None:
        self._policy, self._config, self._world, self._phases = policy, config, world, phases

    def prepare(self, groups: list[SampleGroup]) -> None:
        """Take the samples of this update. ``groups``: this rank's groups of the round."""
        self._groups, self._sums = groups, np.zeros(len(self.NAMES) + 1)

    def used_rows(self) -> NDArray[np.uint8]:
        """Parameter rows that the samples use: uint8 (rows,), 1 where used."""
        used = np.zeros(self._policy.rows, dtype=np.uint8)
        for batch in self._batches:
            used |= self._policy.used_rows(batch.x)
        return used

    def restrict(self, rows: NDArray[np.int64]) -> None:
        """Reduce the samples to the parameter rows of the update."""
        for batch in self._batches:
            batch.x = self._policy.restrict(batch.x, rows)

    def learn(self, buffers: UpdateBuffers, step: Step) -> None:
        """Write gradients into ``buffers`` and call ``step`` after each. Collective: every rank must call this."""
        raise NotImplementedError

    def _add(self, *sums: float) -> None:
        """Add to the sums of the metrics those over some samples and, last, the number of these samples."""
        self._sums += on_grid(sums) if self._config.reproducible else np.array(sums, dtype=np.float64)

    def metrics(self) -> dict[str, Any]:
        """Means over the samples of all ranks. Collective: every rank must call this."""
        totals = self._world.sum_(self._sums)
        return dict(zip(self.NAMES, (totals / max(totals[-1], 1)).tolist()))

    def finish(self) -> None:
        """Finish the update. Called when it is complete on all ranks."""

    def state(self) -> State | None:
        """State for a checkpoint: (arrays, JSON-able dict), or None if the source has none."""
        return None

    def restore(self, states: list[RankState]) -> None:
        """Restore from the ``state`` of a saved run's ranks: (rank, arrays, dict) each."""
