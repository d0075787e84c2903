"""Gradients of the current round: REINFORCE and the clipped surrogate."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pg_mpi.config.settings import TrainConfig
from pg_mpi.learning.batch import Batch
from pg_mpi.learning.gradient_source import RankState, Step
from pg_mpi.learning.phases import PhaseTimer
from pg_mpi.learning.reproducible_sum import check, on_grid
from pg_mpi.learning.sample_groups import ALL, Chosen, SampleGroup
from pg_mpi.learning.schedule import minibatches
from pg_mpi.learning.update_buffers import Sums, UpdateBuffers
from pg_mpi.mpi.interface import Collectives
from pg_mpi.policy import losses
from pg_mpi.policy.interface import Policy


class RoundSource:
    """Base class of the sources of a round. See ``GradientSource`` for the methods."""

    NAMES: tuple[str, ...] = ()

    def __init__(self, policy: Policy, config: TrainConfig, world: Collectives, phases: PhaseTimer) -> None:
        self._policy, self._config, self._world, self._phases = policy, config, world, phases

    def prepare(self, groups: list[SampleGroup]) -> None:
        """Make the batches of the groups."""
        self._groups = groups
        self._sums = Sums((*self.NAMES, "samples"), self._config.reproducible)
        for group in groups:
            group.prepare(self._policy, self._config.rewards)

    def used_rows(self) -> NDArray[np.uint8]:
        """See ``GradientSource``."""
        used = np.zeros(self._policy.rows, dtype=np.uint8)
        for group in self._groups:
            used |= self._policy.used_rows(group.batch.x)
        return used

    def restrict(self, rows: NDArray[np.int64]) -> None:
        """See ``GradientSource``."""
        for group in self._groups:
            group.batch.x = self._policy.restrict(group.batch.x, rows)

    def metrics(self) -> dict[str, Any]:
        """See ``GradientSource``."""
        totals = self._world.sum_(self._sums.values)
        means = dict(zip(self._sums.names, (totals / max(totals[-1], 1)).tolist()))
        del means["samples"]
        return {"value_loss": None, "approx_kl": None, "clip_fraction": None} | means

    def finish(self) -> None:
        """Do nothing: the source has no state."""

    def state(self) -> None:
        """Return None: the source has no state."""

    def restore(self, states: list[RankState]) -> None:
        """Do nothing: the source has no state."""


class Reinforce(RoundSource):
    """One step along the gradient summed over games and averaged over envs."""

    NAMES = ("policy_loss", "entropy")

    def learn(self, buffers: UpdateBuffers, step: Step) -> None:
        """See ``GradientSource``."""
        with self._phases("gradient"):
            for group in self._groups:
                batch = group.batch
                batch.estimate(self._config)
                outputs, hidden = self._policy.forward(buffers.theta, batch.x)
                loss, d_logits, entropy = losses.reinforce(outputs[:, :-1], batch.actions, batch.advantages)
                d_outputs = np.zeros_like(outputs)
                d_outputs[:, :-1] = d_logits
                buffers.add_gradient(self._policy, batch.x, hidden, d_outputs)
                self._sums.add(loss, entropy, len(batch.actions))
        step(buffers, weight=sum(group.batch.envs for group in self._groups))


class Clipped(RoundSource):
    """Epochs of minibatches of the clipped surrogate: ``losses.clipped_surrogate``."""

    NAMES = ("policy_loss", "value_loss", "entropy", "approx_kl", "clip_fraction")

    def learn(self, buffers: UpdateBuffers, step: Step) -> None:
        """See ``GradientSource``."""
        config, groups = self._config, self._groups
        n = sum(len(group.batch.actions) for group in groups)
        total = int(self._world.sum_(np.array([n]))[0])
        count = minibatches(config, total)
        for _ in range(config.update_epochs):
            with self._phases("gradient"):
                for group in groups:
                    group.batch.estimate(config)
            standardise([group.batch for group in groups], self._world, config.reproducible)
            parts = [group.minibatches(count) for group in groups]
            for k in range(count):
                samples = 0
                with self._phases("gradient"):
                    for group, part in zip(groups, parts):
                        samples += self._add_gradient(group.batch, part[k], buffers)
                step(buffers, weight=samples, limit=config.max_grad_norm)

    def _add_gradient(self, batch: Batch, chosen: Chosen, buffers: UpdateBuffers) -> int:
        """Add the gradient of the chosen samples to the buffers; returns their number."""
        policy, config = self._policy, self._config
        x = batch.x if chosen is ALL else policy.pick(batch.x, chosen)  # picking copies
        actions = batch.actions[chosen]
        outputs, hidden = policy.forward(buffers.theta, x)
        values, old = outputs[:, -1], batch.log_probs[chosen]
        batch.values[chosen] = values
        found, d_policy = policy.distribution.surrogate(
            outputs[:, :-1], actions, old, batch.advantages[chosen], config.clip_coef, buffers.ent_coef
        )
        loss, entropy, kl, clipped = found
        value_loss, d_values = losses.value_loss(values, batch.targets[chosen])
        d_outputs = np.empty_like(outputs)
        d_outputs[:, :-1] = d_policy
        d_outputs[:, -1] = config.vf_coef * d_values
        buffers.add_gradient(policy, x, hidden, d_outputs)
        buffers.noise.add_group(buffers.out, len(actions))
        self._sums.add(loss, value_loss, entropy, kl, clipped, len(actions))
        return len(actions)


def standardise(batches: Sequence[Batch], world: Collectives, exact: bool) -> None:
    """Scale the advantages of all ranks' batches to mean 0 and deviation 1. Collective: every rank must call this.

    If no sample was rewarded they are set to 0. They would only be errors of the value function, which the optimizer
    would scale up to full steps. The policy then learns from its entropy bonus only.

    Args:
        exact: whether sums must not depend on their order.
    """
    whole = on_grid if exact else np.asarray
    n = sum(len(batch.advantages) for batch in batches)
    one = sum(whole(batch.advantages.sum(dtype=np.float64)) for batch in batches)
    rewarded = sum(batch.rewarded for batch in batches)
    total = world.sum_(np.array([n, one, rewarded], dtype=np.float64))
    if exact:
        check(total)
    mean = total[1] / total[0]
    two = sum(whole(((batch.advantages - mean) ** 2).sum(dtype=np.float64)) for batch in batches)
    squares = world.sum_(np.array([two], dtype=np.float64))
    if exact:
        check(squares)
    deviation = np.sqrt(squares[0] / total[0]) + 1e-8 if total[2] else np.inf
    for batch in batches:
        batch.advantages -= mean
        batch.advantages /= deviation
