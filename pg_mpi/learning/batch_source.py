"""What the gradient sources share: batches of samples, and the means of their metrics."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pg_mpi.config.settings import TrainConfig
from pg_mpi.learning.gradient_source import RankState, State
from pg_mpi.learning.phases import PhaseTimer
from pg_mpi.learning.reproducible_sum import on_grid
from pg_mpi.learning.sample_groups import SampleGroup
from pg_mpi.mpi.interface import Collectives
from pg_mpi.policy.interface import Policy


class BatchSource:
    """Base class of the gradient sources. See ``GradientSource`` for the methods; subclasses add ``learn``.

    Attributes:
        NAMES: of the metrics.
        _batches: the samples, set by ``prepare``; the ``x`` of each is a batch of the policy.
    """

    NAMES: tuple[str, ...] = ()
    _batches: list[Any]

    def __init__(self, policy: Policy, config: TrainConfig, world: Collectives, phases: PhaseTimer) -> None:
        self._policy, self._config, self._world, self._phases = policy, config, world, phases

    def prepare(self, groups: list[SampleGroup]) -> None:
        """Begin an update; subclasses set ``_batches``."""
        self._groups, self._sums = groups, np.zeros(len(self.NAMES) + 1)

    def used_rows(self) -> NDArray[np.uint8]:
        """See ``GradientSource``."""
        used = np.zeros(self._policy.rows, dtype=np.uint8)
        for batch in self._batches:
            used |= self._policy.used_rows(batch.x)
        return used

    def restrict(self, rows: NDArray[np.int64]) -> None:
        """See ``GradientSource``."""
        for batch in self._batches:
            batch.x = self._policy.restrict(batch.x, rows)

    def _add(self, *sums: float) -> None:
        """Add to the sums of the metrics those over some samples and, last, the number of these samples."""
        self._sums += on_grid(sums) if self._config.reproducible else np.array(sums, dtype=np.float64)

    def metrics(self) -> dict[str, Any]:
        """See ``GradientSource``."""
        totals = self._world.sum_(self._sums)
        return dict(zip(self.NAMES, (totals / max(totals[-1], 1)).tolist()))

    def finish(self) -> None:
        """Do nothing, unless a subclass does."""

    def state(self) -> State | None:
        """Return None: the source has no state, unless a subclass has."""
        return None

    def restore(self, states: list[RankState]) -> None:
        """Do nothing, unless a subclass has a state."""
