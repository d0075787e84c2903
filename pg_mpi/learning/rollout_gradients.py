"""Gradients of the current round: REINFORCE and the clipped surrogate."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pg_mpi.learning.batch import Batch
from pg_mpi.learning.batch_source import BatchSource
from pg_mpi.learning.gradient_source import Step
from pg_mpi.learning.reproducible_sum import summed
from pg_mpi.learning.sample_groups import ALL, Chosen, SampleGroup
from pg_mpi.learning.update_buffers import UpdateBuffers
from pg_mpi.mpi.interface import Collectives
from pg_mpi.policy import losses


class RoundSource(BatchSource):
    """Base class of the sources of a round."""

    _batches: list[Batch]

    def prepare(self, groups: list[SampleGroup]) -> None:
        """Make the batches of the groups."""
        super().prepare(groups)
        self._batches = [Batch(group.trajectories, self._policy, self._config.rewards) for group in groups]

    def metrics(self) -> dict[str, Any]:
        """See ``GradientSource``."""
        return {"value_loss": None, "approx_kl": None, "clip_fraction": None} | super().metrics()


class Reinforce(RoundSource):
    """One step along the gradient summed over games and averaged over envs."""

    NAMES = ("policy_loss", "entropy")

    def learn(self, buffers: UpdateBuffers, step: Step) -> None:
        """See ``GradientSource``."""
        with self._phases("gradient"):
            for batch in self._batches:
                batch.estimate(self._config)
                outputs, hidden = self._policy.forward(buffers.theta, batch.x)
                loss, d_logits, entropy = losses.reinforce(outputs[:, :-1], batch.actions, batch.advantages)
                buffers.add_gradient(self._policy, batch.x, outputs, hidden, d_logits, 0.0)
                self._add(loss, entropy, len(batch.actions))
        step(buffers, weight=sum(len(group.trajectories) for group in self._groups))


class Clipped(RoundSource):
    """Epochs of minibatches of the clipped surrogate: ``losses.clipped_ratio``."""

    NAMES = ("policy_loss", "value_loss", "entropy", "approx_kl", "clip_fraction")

    def learn(self, buffers: UpdateBuffers, step: Step) -> None:
        """See ``GradientSource``."""
        config, batches = self._config, self._batches
        for _ in range(config.update_epochs):
            with self._phases("gradient"):
                for batch in batches:
                    batch.estimate(config)
            standardise_over_ranks(batches, self._world, config.reproducible)
            parts = [group.minibatches(buffers.minibatches) for group in self._groups]
            for k in range(buffers.minibatches):
                samples = 0
                with self._phases("gradient"):
                    for batch, part in zip(batches, parts):
                        samples += self._add_gradient(batch, part[k], buffers)
                step(buffers, weight=samples, limit=config.max_grad_norm)

    def _add_gradient(self, batch: Batch, chosen: Chosen, buffers: UpdateBuffers) -> int:
        """Add the gradient of the chosen samples to the buffers; returns their number."""
        policy, config = self._policy, self._config
        actions = batch.actions[chosen]
        if not len(actions):  # custom policies need not know empty batches
            return 0
        x = batch.x if chosen is ALL else batch.x[chosen]  # ALL would copy
        outputs, hidden = policy.forward(buffers.theta, x)
        values, old = outputs[:, -1], batch.log_probs[chosen]
        batch.values[chosen] = values
        found, d_policy = policy.distribution.surrogate(
            outputs[:, :-1], actions, old, batch.advantages[chosen], config.clip_coef, buffers.ent_coef
        )
        loss, entropy, kl, clipped = found
        value_loss, d_values = losses.value_loss(values, batch.targets[chosen])
        buffers.add_gradient(policy, x, outputs, hidden, d_policy, config.vf_coef * d_values)
        buffers.noise.add_group(buffers.out, len(actions))
        self._add(loss, value_loss, entropy, kl, clipped, len(actions))
        return len(actions)


def standardise_over_ranks(batches: Sequence[Batch], world: Collectives, exact: bool) -> None:
    """Scale the advantages of all ranks' batches to mean 0 and deviation 1. Collective: every rank must call this.

    If no sample was rewarded they are set to 0. They would only be errors of the value function, which the optimizer
    would scale up to full steps. The policy then learns from its entropy bonus only.

    Args:
        exact: whether sums must not depend on their order.
    """
    sums = [np.array([len(b.advantages), b.advantages.sum(dtype=np.float64), b.rewarded]) for b in batches]
    n, total, rewarded = summed(world, sums, exact)
    mean = total / max(n, 1)
    away = [((b.advantages - mean) ** 2).sum(dtype=np.float64, keepdims=True) for b in batches]
    squares = summed(world, away, exact)[0]
    deviation = np.sqrt(squares / max(n, 1)) + 1e-8 if rewarded else np.inf
    for batch in batches:
        batch.standardise(mean, deviation)
