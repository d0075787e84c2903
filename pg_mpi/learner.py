"""Learning: trajectories → gradient (sum and count) → Allreduce → optimizer → the policy's weights.

Every rank works on its own samples and applies the same step. An update touches only the parameters of
pixels that some rank saw in it, so gradients, exchanges and optimizer steps are done on those rows.
"""

import numpy as np
from scipy.sparse import csr_matrix

from pg_mpi.agent import gradient as grad
from pg_mpi.agent.advantages import discounted_returns, generalised_advantages, standardise
from pg_mpi.trajectory import Trajectory


class Learner:
    """One update after another, on all ranks together.

    Attributes:
        exchanges, bytes_exchanged, flops, skipped: running counts.
    """

    _COUNTERS = ("exchanges", "bytes_exchanged", "flops", "skipped")

    def __init__(self, policy, optimizer, config, world, phases):
        self.policy, self.optimizer, self.config = policy, optimizer, config
        self._world, self._phases = world, phases
        self.exchanges = self.bytes_exchanged = self.flops = self.skipped = 0

    def update(self, trajectories, shuffle, anneal=1.0):
        """Learn from this round's trajectories, any number of samples on any rank.

        Collective: every rank must call this.

        Args:
            trajectories: one per env of this rank.
            shuffle: numpy Generator that orders this rank's samples into minibatches.
            anneal: factor on the learning rate and the entropy bonus.

        Returns:
            dict of the metrics of learning, equal on all ranks.
        """
        with self._phases("gradient"):
            batch = Batch(trajectories, self.config, self.policy.theta.dtype)
        rows = self._touched_rows(batch)
        with self._phases("gradient"):
            part = self.policy.restricted(batch.inputs, rows)
        state = np.stack([self.policy.take(slot, rows) for slot in self.optimizer.state])
        session = _Session(part, state, self.config.learning_rate * anneal, self.config.ent_coef * anneal)
        taken = self.optimizer.steps
        learn = self._reinforce if self.config.method == "reinforce" else self._clipped
        sums = learn(batch, session, shuffle)
        with self._phases("optimizer"):
            self.optimizer.rest(self.optimizer.steps - taken)
            self.policy.put(self.policy.theta, rows, part.theta)
            for slot, changed in zip(self.optimizer.state, state):
                self.policy.put(slot, rows, changed)
        return self._metrics(sums, session)

    def counters(self):
        """The running counts, for a checkpoint: a JSON-able dict."""
        return {name: getattr(self, name) for name in self._COUNTERS} | {"steps": self.optimizer.steps}

    def restore(self, counters):
        """Continue from ``counters``."""
        self.optimizer.steps = counters["steps"]
        for name in self._COUNTERS:
            setattr(self, name, counters[name])

    def _touched_rows(self, batch):
        """The parameter rows that any rank's samples use: int64, equal on all ranks."""
        used = self.policy.rows_of(batch.inputs)
        with self._phases("wait"):
            self._world.barrier()
        with self._phases("allreduce"):
            return np.flatnonzero(self._world.max_(used))

    def _reinforce(self, batch, session, shuffle):
        """One step along the games' summed gradient, averaged over envs. Returns sums for the metrics."""
        network = self._expand(session)
        with self._phases("gradient"):
            outputs, hidden = network.forward(batch.x)
            loss, d_logits, entropy = grad.reinforce(outputs[:, :-1], batch.actions, batch.advantages)
            d_outputs = np.zeros_like(outputs)
            d_outputs[:, :-1] = d_logits
            self._differentiate(session, network, batch.x, hidden, d_outputs)
        self._step(session, weight=batch.envs)
        return {"policy_loss": loss, "entropy": entropy, "samples": len(batch.actions)}

    def _clipped(self, batch, session, shuffle):
        """Epochs of clipped-surrogate minibatches. Returns sums for the metrics."""
        self._standardise(batch)
        n = len(batch.actions)
        total = int(self._world.sum_(np.array([n]))[0])
        minibatches = max(1, round(total / self.config.minibatch_size))
        sums = dict.fromkeys(("policy_loss", "value_loss", "entropy", "approx_kl", "clip_fraction", "samples"), 0.0)
        for _ in range(self.config.update_epochs):
            for chosen in np.array_split(shuffle.permutation(n), minibatches):
                network = self._expand(session)
                with self._phases("gradient"):
                    self._clipped_gradient(batch, chosen, session, network, sums)
                self._step(session, weight=len(chosen), limit=self.config.max_grad_norm)
        return sums

    def _clipped_gradient(self, batch, chosen, session, network, sums):
        x, actions, config = batch.x[chosen], batch.actions[chosen], self.config
        outputs, hidden = network.forward(x)
        log_pi, values = grad.log_softmax(outputs[:, :-1]), outputs[:, -1]
        loss, d_logits, kl, clipped = grad.clipped_surrogate(
            log_pi, actions, batch.log_probs[chosen], batch.advantages[chosen], config.clip_coef
        )
        entropy, d_entropy = grad.entropy(log_pi)
        value_loss, d_values = grad.value_loss(values, batch.targets[chosen])
        d_outputs = np.empty_like(outputs)
        d_outputs[:, :-1] = d_logits - session.ent_coef * d_entropy
        d_outputs[:, -1] = config.vf_coef * d_values
        self._differentiate(session, network, x, hidden, d_outputs)
        for name, value in zip(sums, (loss, value_loss, entropy, kl, clipped, len(chosen))):
            sums[name] += float(value)

    def _expand(self, session):
        with self._phases("gradient"):
            return session.part.expand()

    def _differentiate(self, session, network, x, hidden, d_outputs):
        session.part.fold(network.backward(x, hidden, d_outputs), session.buffer[:-1])
        self.flops += 3 * network.flops(x.shape[0], x.nnz)

    def _step(self, session, weight, limit=np.inf):
        """Sum gradients and weights over ranks, divide once, and take the optimizer's step.

        Collective. The weight travels in the gradient's buffer: whole numbers below 2**24 are exact there.
        """
        session.buffer[-1] = weight
        with self._phases("wait"):
            self._world.barrier()
        with self._phases("allreduce"):
            self._world.sum_(session.buffer)
        self.exchanges += 1
        self.bytes_exchanged += session.buffer.nbytes
        with self._phases("optimizer"):
            gradient = session.buffer[:-1]
            gradient /= session.buffer[-1]
            norm = grad.clip_norm(gradient, limit)
            if not np.isfinite(norm):  # the sum is the same on all ranks, so all skip it together
                self.skipped += 1
                return
            session.norms.append(norm)
            self.optimizer.step(session.part.theta, gradient, session.state, session.learning_rate)

    def _standardise(self, batch):
        """Advantages to mean 0 and deviation 1 over all ranks' samples. Collective."""
        total = self._world.sum_(np.array([len(batch.advantages), batch.advantages.sum(dtype=np.float64)]))
        mean = total[1] / total[0]
        squares = self._world.sum_(np.array([((batch.advantages - mean) ** 2).sum(dtype=np.float64)]))
        batch.advantages -= mean
        batch.advantages /= np.sqrt(squares[0] / total[0]) + 1e-8

    def _metrics(self, sums, session):
        """Means over all samples of all ranks and exchanges. Collective."""
        totals = self._world.sum_(np.array(list(sums.values()), dtype=np.float64))
        means = dict(zip(sums, (totals / max(totals[-1], 1)).tolist()))
        del means["samples"]
        empty = {"value_loss": None, "approx_kl": None, "clip_fraction": None}
        norm = float(np.mean(session.norms)) if session.norms else None
        return {**empty, **means, "grad_norm": norm, "learning_rate": session.learning_rate}


class _Session:
    """What one update works on: the touched part of the policy, its optimizer state, the exchange buffer."""

    def __init__(self, part, state, learning_rate, ent_coef):
        self.part, self.state, self.learning_rate, self.ent_coef = part, state, learning_rate, ent_coef
        self.buffer = np.zeros(part.theta.size + 1, dtype=part.theta.dtype)
        self.norms = []


class Batch:
    """This rank's samples of one update, the envs one after another.

    Attributes:
        inputs: int64 (U,), the inputs that were active in any sample; the columns of ``x``.
        x: csr (n, U) of ones.
        actions, log_probs, advantages, targets: (n,).
        envs: how many envs played.
    """

    def __init__(self, trajectories, config, dtype):
        lived = trajectories or [Trajectory(steps=1)]  # a rank without samples has empty arrays
        observed = np.concatenate([t.observed for t in lived])
        counts = np.concatenate([t.counts for t in lived])
        used = np.zeros(observed.max(initial=0) + 1, dtype=bool)
        used[observed] = True
        self.inputs = np.flatnonzero(used)
        column_of = np.zeros(len(used), dtype=np.int32)
        column_of[self.inputs] = np.arange(len(self.inputs), dtype=np.int32)
        starts = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
        ones = np.ones(len(observed), dtype=dtype)
        self.x = csr_matrix((ones, column_of[observed], starts), shape=(len(counts), len(self.inputs)))
        self.actions = np.concatenate([t.actions for t in lived])
        self.log_probs = np.concatenate([t.log_probs for t in lived]).astype(dtype)
        advantages = [_advantages(t, config) for t in lived]
        self.advantages = np.concatenate(advantages).astype(dtype)
        values = np.concatenate([t.values for t in lived])
        self.targets = (np.concatenate(advantages) + values).astype(dtype)
        self.envs = len(trajectories)


def _advantages(trajectory, config):
    """The advantage of each step of one env: float64 (length,)."""
    t = trajectory
    if config.method == "clipped":
        return generalised_advantages(t.rewards, t.values, t.ends, t.last_value, config.gamma, config.gae_lambda)
    returns = discounted_returns(t.rewards, t.ends, config.gamma)
    cuts = np.cumsum([steps for _, steps in t.games])[:-1]  # each game is standardised by itself
    return np.concatenate([standardise(game) for game in np.split(returns, cuts)])
