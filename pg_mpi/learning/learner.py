"""One update: gradients (sum and count) → Allreduce → optimizer → the policy's weights.

Every rank computes gradients on its own samples and applies the same steps. Gradients, exchanges and optimizer steps
cover only the parameter rows that the samples of any rank use.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pg_mpi.config.array_types import Floats
from pg_mpi.config.settings import TrainConfig
from pg_mpi.learning.advantages import discounted_returns
from pg_mpi.learning.gradient_source import GradientSource, RankState, State
from pg_mpi.learning.optimizer_steps import make_step
from pg_mpi.learning.parameter_store import ParameterStore
from pg_mpi.learning.phases import PhaseTimer
from pg_mpi.learning.reproducible_sum import summed
from pg_mpi.learning.sample_groups import SampleGroup
from pg_mpi.learning.schedule import Plan
from pg_mpi.learning.update_buffers import UpdateBuffers
from pg_mpi.mpi.interface import Collectives
from pg_mpi.policy.interface import Network


class Learner:
    """The update step, on all ranks together. Collective: every rank must call the constructor and ``update``.

    Args:
        store: a ``ParameterStore``.
        sources: list of ``GradientSource``; the first is the round's.
        ranks_per_step: number of ranks that divide the optimizer's work; 1: every rank does all.

    Attributes:
        exchanges, bytes_exchanged: totals of the run.
        skipped: updates of the run with a non-finite gradient; ``skipped_in_row``: the newest consecutive ones.
        flops: floating-point operations of this rank's gradients since it started.
        touched: int64, the parameter rows of the newest update.
        kept: ``counters`` after the newest complete update.
    """

    _COUNTERS = ("exchanges", "bytes_exchanged", "skipped")

    touched: NDArray[np.int64]

    def __init__(
        self,
        store: ParameterStore,
        sources: Sequence[GradientSource],
        config: TrainConfig,
        world: Collectives,
        phases: PhaseTimer,
        ranks_per_step: int = 1,
    ) -> None:
        self._store, self.sources = store, sources
        self.policy, self.optimizer = store.policy, store.optimizer
        self._config, self._world, self._phases = config, world, phases
        self._optimizer_step = make_step(store, world, phases, ranks_per_step)
        self.exchanges = self.bytes_exchanged = self.flops = self.skipped = self.skipped_in_row = 0
        self.kept = self.counters()

    def update(
        self, groups: list[SampleGroup], plan: Plan, confirm: Callable[[], object] = lambda: None
    ) -> dict[str, Any]:
        """Run one update on this round's samples. A rank may have none.

        Collective: every rank must call this.

        Args:
            groups: this rank's.
            plan: see ``schedule.plan``.
            confirm: called after the last exchange, before the policy changes. If it raises, only the counters, which
                ``restore(kept)`` resets, and random streams have changed.

        Returns:
            dict of learning metrics, equal on all ranks.
        """
        with self._phases("gradient"):
            for source in self.sources:
                source.prepare(groups)
        self.touched = rows = self._touched_rows()
        with self._phases("gradient"):
            for source in self.sources:
                source.restrict(rows)
        buffers = self._store.open(rows, plan)
        self._optimizer_step.open(buffers)
        for source in self.sources:
            source.learn(buffers, self.step)
        metrics: dict[str, Any] = {}
        for source in self.sources:
            metrics |= source.metrics()
        metrics |= buffers.noise.metrics(self._world)
        seen = self._seen(groups)
        confirm()
        with self._phases("optimizer"):
            self._store.close(buffers, rows, seen)
        self.flops += buffers.flops
        self.skipped += buffers.skipped
        self.skipped_in_row = self.skipped_in_row + 1 if buffers.skipped else 0
        self.kept = self.counters()
        for source in self.sources:
            source.finish()
        norm = float(np.mean(buffers.norms)) if buffers.norms else None
        return metrics | {"grad_norm": norm, "learning_rate": buffers.learning_rate}

    def step(self, buffers: UpdateBuffers, weight: float, limit: float = np.inf) -> None:
        """Sum gradients and weights over ranks, divide once and take an optimizer step.

        Collective: every rank must call this.
        """
        buffers.begin_exchange()
        done = self._optimizer_step.step(buffers, weight, limit)
        self.exchanges += 1
        self.bytes_exchanged += buffers.buffer.nbytes
        if done is not None:  # else fewer samples than minibatches: this one is empty on every rank
            buffers.count_step(*done)

    def refresh(self, network: Network) -> None:
        """Update a network's parameters after the newest update."""
        self._store.refresh(network, self.touched)

    def replay_state(self) -> State | None:
        """State of the source that has one, (arrays, JSON-able dict), or None."""
        return next((state for state in (source.state() for source in self.sources) if state), None)

    def restore_replay(self, states: list[RankState]) -> None:
        """Restore from the ``replay_state`` of a saved run's ranks: a list of (rank, arrays, dict)."""
        for source in self.sources:
            source.restore(states)

    def counters(self) -> dict[str, int]:
        """Counters for a checkpoint: a JSON-able dict."""
        return {name: getattr(self, name) for name in self._COUNTERS} | {"steps": self.optimizer.steps}

    def restore(self, counters: Mapping[str, Any]) -> None:
        """Continue from ``counters``. Raises ValueError, KeyError or TypeError for malformed data."""
        found = {name: int(counters[name]) for name in ("steps", *self._COUNTERS)}
        if min(found.values()) < 0:
            raise ValueError(f"negative counters: {counters}")
        self.optimizer.steps = found.pop("steps")
        for name, count in found.items():
            setattr(self, name, count)
        self.kept = self.counters()

    def _touched_rows(self) -> NDArray[np.int64]:
        """Parameter rows that any rank's samples use: int64, equal on all ranks. Collective."""
        used = np.bitwise_or.reduce([source.used_rows() for source in self.sources])
        with self._phases("wait"):  # shared buffers are free once all ranks are here
            self._world.barrier()
        with self._phases("allreduce"):
            return np.flatnonzero(self._world.max_(used))

    def _seen(self, groups: list[SampleGroup]) -> Floats | None:
        """Sums of the round for the policy's running norm, over all ranks; None without a norm. Collective."""
        norm, exact = self.policy.norm, self._config.reproducible
        if norm is None:
            return None
        played = (trajectory for group in groups for trajectory in group.trajectories)
        returns = ((t, discounted_returns(t.rewards, t.ends, self._config.gamma)) for t in played)
        return summed(self._world, (norm.sums(t.seen, found) for t, found in returns), exact)
