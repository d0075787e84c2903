"""Self-imitation: what went better than expected is done again. A ``Learner`` with a memory of what its envs lived.

After each update's own exchanges come ``UPDATES`` more, along the gradient of

    sum over samples of  -log pi(a|s) g + coef_v / 2 g^2,     g = max(R - V(s), 0)

for transitions (s, a, R) that every rank draws from its own ``ReplayBuffer`` in proportion to their return. Only steps
whose return is complete are kept. Source: Oh et al., "Self-Imitation Learning" (2018), equations 1 to 3.
"""

import numpy as np

from pg_mpi.config.random_streams import REPLAY, stream
from pg_mpi.learning.advantages import discounted_returns
from pg_mpi.learning.batch import learned
from pg_mpi.learning.learner import Learner
from pg_mpi.learning.self_imitation.replay_buffer import SIZE, ReplayBuffer
from pg_mpi.policy import losses as grad

UPDATES = 4  # exchanges of each update
BATCH = 512  # transitions of such an exchange, over all ranks
COEF = 0.1  # weight of the self-imitation loss
VF_COEF = 0.01  # weight of the value loss within it
NAMES = ("replay_loss", "replay_gain", "replay_share")


class SelfImitationLearner(Learner):
    """A ``Learner`` that also learns from the good past of its own rank's envs.

    Attributes:
        replay: the transitions of this rank.
    """

    def __init__(self, policy, optimizer, config, world, phases):
        super().__init__(policy, optimizer, config, world, phases)
        self.replay = ReplayBuffer(SIZE, policy.inputs)
        self._rng = stream(config.seed, REPLAY, world.rank)
        self._drawn = []

    def update(self, groups, anneal, confirm=lambda: None):
        """As ``Learner.update``; then this round's steps are remembered."""
        self._sums = np.zeros(len(NAMES) + 1)
        metrics = super().update(groups, anneal, confirm)
        for trajectory in (each for group in groups for each in group.trajectories):
            self._remember(trajectory)
        return metrics

    def _prepare(self, groups):
        """Draw now what is learned from later: an update works only on the rows that its samples use."""
        super()._prepare(groups)
        world = self._world
        mine = (world.rank + 1) * BATCH // world.size - world.rank * BATCH // world.size
        count = min(mine, len(self.replay))
        self._drawn = [self._draw(count) for _ in range(UPDATES)] if count else []

    def _draw(self, count):
        """``count`` transitions, with the observations on the parameter rows: [x, actions, returns]."""
        observed, counts, actions, returns = self.replay.read(self.replay.draw(count, self._rng))
        return [self.policy.gathered(observed, counts), actions, returns.astype(self.policy.theta.dtype)]

    def _used_rows(self, groups):
        used = super()._used_rows(groups)
        for x, _, _ in self._drawn:
            used |= self.policy.used_rows(x)
        return used

    def _restrict(self, groups, rows):
        super()._restrict(groups, rows)
        for batch in self._drawn:
            batch[0] = self.policy.restrict(batch[0], rows)

    def _learn(self, groups, buffers):
        sums = super()._learn(groups, buffers)
        for number in range(UPDATES):
            samples = 0
            if self._drawn:
                with self._phases("gradient"):
                    samples = self._imitate(buffers, *self._drawn[number])
            self._step(buffers, weight=samples, limit=self.config.max_grad_norm)
        return sums

    def _imitate(self, buffers, x, actions, returns):
        """Write the gradient of some transitions into the buffers; returns how many they are."""
        outputs, hidden = self.policy.forward(buffers.theta, x)
        log_pi = grad.log_softmax(outputs[:, :-1])
        loss, d_logits, d_values = grad.self_imitation(log_pi, actions, outputs[:, -1], returns)
        d_outputs = np.empty_like(outputs)
        d_outputs[:, :-1] = COEF * d_logits
        d_outputs[:, -1] = COEF * VF_COEF * d_values
        self._differentiate(buffers, x, hidden, d_outputs)
        self._sums += loss, -d_values.sum(), np.count_nonzero(d_values), len(actions)
        return len(actions)

    def _metrics(self, sums, buffers):
        """Besides the others, as means over samples: the loss, the gain over the value, the fraction that has one."""
        totals = self._world.sum_(self._sums)
        means = (totals / max(totals[-1], 1)).tolist()
        return super()._metrics(sums, buffers) | dict(zip(NAMES, means))

    # -- memory -----------------------------------------------------------------------------------------

    def _remember(self, trajectory):
        """Append a trajectory's steps, up to the last whose return is complete."""
        complete = int(np.flatnonzero(trajectory.ends)[-1]) + 1 if trajectory.ends.any() else 0
        rewards = learned(trajectory, self.config.rewards, self.policy.norm)
        returns = discounted_returns(rewards, trajectory.ends, self.config.gamma)[:complete]
        returns = np.clip(returns, -self.replay.limit, self.replay.limit)
        counts = trajectory.counts[:complete]
        self.replay.add(trajectory.observed[: counts.sum()], counts, trajectory.actions[:complete], returns)

    def memory(self):
        """What of it a checkpoint holds: arrays, and a dict for JSON."""
        return self.replay.state(), self._rng.bit_generator.state

    def recall(self, memories):
        """Take up memories of a saved run, (rank there, arrays, dict) each: its own, where there are as many ranks.

        On fewer ranks some take up several, and on more some none. Raises nearly anything for what is no memory.
        """
        for number, arrays, state in memories:
            if not 0 <= arrays["actions"].min(initial=0) <= arrays["actions"].max(initial=0) < self.policy.actions:
                raise ValueError("actions that the policy does not have")
            if number == self._world.rank:
                self.replay.restore(arrays)
                self._rng.bit_generator.state = state
            else:
                self.replay.append(arrays)
