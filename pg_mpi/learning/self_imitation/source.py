"""Self-imitation: a gradient source that learns from past transitions with a better return than expected.

``UPDATES`` optimizer steps follow those of the round, along the gradient of

    sum over samples of  -log pi(a|s) g + coef_v / 2 g^2,     g = max(R - V(s), 0)

for transitions (s, a, R) that every rank draws from its own ``ReplayBuffer`` in proportion to their return. Only steps
whose return is complete are stored. Source: Oh et al., "Self-Imitation Learning" (2018), equations 1 to 3.
"""

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from pg_mpi.config.array_types import Floats, Integers
from pg_mpi.config.random_streams import REPLAY, stream
from pg_mpi.config.settings import TrainConfig
from pg_mpi.learning.advantages import discounted_returns
from pg_mpi.learning.batch import learned
from pg_mpi.learning.batch_source import BatchSource
from pg_mpi.learning.gradient_source import RankState, State, Step
from pg_mpi.learning.phases import PhaseTimer
from pg_mpi.learning.sample_groups import SampleGroup
from pg_mpi.learning.self_imitation.replay_buffer import SIZE, ReplayBuffer
from pg_mpi.learning.update_buffers import UpdateBuffers
from pg_mpi.mpi.interface import Collectives
from pg_mpi.policy import losses

if TYPE_CHECKING:
    from pg_mpi.policy.sparse_mlp import SparseMLP

UPDATES = 4  # exchanges per update
BATCH = 512  # transitions per exchange, over all ranks
COEF = 0.1  # weight of the self-imitation loss
VF_COEF = 0.01  # weight of the value loss within it


@dataclasses.dataclass
class Drawn:
    """Transitions: ``x`` on the parameter rows, ``actions`` int (n,), ``returns`` (n,) of the policy's dtype."""

    x: Any
    actions: Integers
    returns: Floats


class SelfImitation(BatchSource):
    """The gradient source of ``--replay``.

    Attributes:
        replay: this rank's transitions.
    """

    NAMES = ("replay_loss", "replay_gain", "replay_share")
    _policy: "SparseMLP"
    _batches: list[Drawn]

    def __init__(self, policy: "SparseMLP", config: TrainConfig, world: Collectives, phases: PhaseTimer) -> None:
        super().__init__(policy, config, world, phases)
        self.replay = ReplayBuffer(SIZE, policy.inputs)
        first_env = world.rank * config.envs_per_rank  # identifies the buffer
        self._rng = stream(config.seed, REPLAY, first_env)

    def prepare(self, groups: list[SampleGroup]) -> None:
        """Draw this update's transitions. Their rows are needed before its first step."""
        super().prepare(groups)
        rank, size = self._world.rank, self._world.size
        mine = (rank + 1) * BATCH // size - rank * BATCH // size
        count = min(mine, len(self.replay) // UPDATES)
        self._batches = []
        if count:
            drawn = self.replay.draw(UPDATES * count, self._rng)
            self._batches = [self._drawn(places) for places in np.split(drawn, UPDATES)]

    def _drawn(self, places: Integers) -> Drawn:
        """The transitions at ``places``."""
        observed, counts, actions, returns = self.replay.read(places)
        return Drawn(self._policy.gathered(observed, counts), actions, returns.astype(self._policy.theta.dtype))

    def learn(self, buffers: UpdateBuffers, step: Step) -> None:
        """See ``GradientSource``."""
        for number in range(UPDATES):
            samples = 0
            if self._batches:
                with self._phases("gradient"):
                    samples = self._write_gradient(buffers, self._batches[number])
            step(buffers, weight=samples, limit=self._config.max_grad_norm)

    def _write_gradient(self, buffers: UpdateBuffers, batch: Drawn) -> int:
        """Write the gradient of transitions into the buffers; returns their number."""
        outputs, hidden = self._policy.forward(buffers.theta, batch.x)
        logits, values = outputs[:, :-1], outputs[:, -1]
        loss, d_logits, d_values = losses.self_imitation(logits, batch.actions, values, batch.returns)
        buffers.add_gradient(self._policy, batch.x, outputs, hidden, COEF * d_logits, COEF * VF_COEF * d_values)
        self._add(loss, -d_values.sum(), int(np.count_nonzero(d_values)), len(batch.actions))
        return len(batch.actions)

    def finish(self) -> None:
        """Store the round's steps, up to the last one whose return is complete."""
        for t in (trajectory for group in self._groups for trajectory in group.trajectories):
            complete = int(np.flatnonzero(t.ends)[-1]) + 1 if t.ends.any() else 0
            rewards = learned(t, self._config.rewards, self._policy.norm)
            returns = discounted_returns(rewards, t.ends, self._config.gamma)[:complete]
            counts = t.counts[:complete]
            self.replay.add(t.observed[: counts.sum()], counts, t.actions[:complete], returns)

    # -- checkpoints ------------------------------------------------------------------------------------

    def state(self) -> State:
        """State for a checkpoint: (arrays, JSON-able dict)."""
        return self.replay.state(), self._rng.bit_generator.state

    def restore(self, states: list[RankState]) -> None:
        """Restore from the states of a saved run's ranks.

        A rank of the saved run restores its own. On fewer ranks some append those of others; on more, some start empty.
        Raises ValueError, KeyError or TypeError for malformed data.
        """
        for rank, arrays, state in states:
            if not 0 <= arrays["actions"].min(initial=0) <= arrays["actions"].max(initial=0) < self._policy.actions:
                raise ValueError("actions that the policy does not have")
            self.replay.append(arrays)
            if rank == self._world.rank:
                self._rng.bit_generator.state = state
