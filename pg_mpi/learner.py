"""Learning: trajectories → gradient (sum and count) → Allreduce → optimizer → the policy's weights.

Every rank works on its own samples and applies the same step. An update touches only the parameters of
pixels that some rank saw in it, so gradients, exchanges and optimizer steps are done on those rows.
"""

import numpy as np

from pg_mpi.agent import gradient as grad
from pg_mpi.batch import Batch

_ALL = slice(None)
PACE_POWER, PACE_LIMIT = 0.25, 1.15  # gentle: an update's KL is itself a noisy figure


class Learner:
    """One update after another, on all ranks together.

    Attributes:
        exchanges, bytes_exchanged: running counts of the run; ``skipped`` of its updates with a gradient that
            was not finite; ``pace`` is the factor on the learning rate that holds the desired KL.
        flops: floating-point operations of this rank since it started.
        touched: int64, the parameter rows that the newest update worked on.
    """

    _COUNTERS = ("exchanges", "bytes_exchanged", "skipped", "pace")

    def __init__(self, policy, optimizer, config, world, phases):
        self.policy, self.optimizer, self.config = policy, optimizer, config
        self._world, self._phases = world, phases
        self.exchanges = self.bytes_exchanged = self.flops = self.skipped = 0
        self.pace = 1.0

    def update(self, trajectories, shuffle, stage):
        """Learn from this round's trajectories, any number of samples on any rank.

        Collective: every rank must call this.

        Args:
            trajectories: one per env of this rank.
            shuffle: numpy Generator that orders this rank's samples into minibatches.
            stage: the ``Stage`` of the run that this is.

        Returns:
            dict of the metrics of learning, equal on all ranks.
        """
        with self._phases("gradient"):
            batch = Batch(trajectories, self.policy, stage.loss_weight)
        self.touched = rows = self._touched_rows(batch)
        with self._phases("gradient"):
            batch.x = self.policy.restrict(batch.x, rows)
        theta = self.policy.take(self.policy.theta, rows)
        state = np.stack([self.policy.take(slot, rows) for slot in self.optimizer.state])
        session = _Session(theta, state, self._learning_rate(stage), self.config.ent_coef * stage.anneal)
        taken = self.optimizer.steps
        learn = self._reinforce if self.config.method == "reinforce" else self._clipped
        sums = learn(batch, session, shuffle)
        with self._phases("optimizer"):
            self.optimizer.rest(self.optimizer.steps - taken)
            self.policy.put(self.policy.theta, rows, session.theta)
            for slot, changed in zip(self.optimizer.state, state):
                self.policy.put(slot, rows, changed)
        self.skipped += session.skipped
        metrics = self._metrics(sums, session)
        if self.config.desired_kl and metrics["approx_kl"]:
            self._pace(metrics["approx_kl"], stage.kl * self.config.desired_kl)
        return metrics

    def _learning_rate(self, stage):
        """This update's step size: annealed itself, or paced by a KL target that is annealed instead."""
        return self.config.learning_rate * (self.pace if self.config.desired_kl else stage.anneal)

    def _pace(self, kl, desired):
        """Bring the next update's KL nearer to the target by a slightly longer or shorter step.

        Equal on all ranks, for ``kl`` is a sum over all of them.
        """
        change = (desired / kl) ** PACE_POWER
        self.pace *= min(PACE_LIMIT, max(1 / PACE_LIMIT, change))

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
        used = self.policy.used_rows(batch.x)
        with self._phases("wait"):
            self._world.barrier()
        with self._phases("allreduce"):
            return np.flatnonzero(self._world.max_(used))

    def _reinforce(self, batch, session, shuffle):
        """One step along the games' summed gradient, averaged over envs. Returns sums for the metrics."""
        with self._phases("gradient"):
            batch.estimate(self.config)
            outputs, hidden = self.policy.forward(session.theta, batch.x)
            loss, d_logits, entropy = grad.reinforce(outputs[:, :-1], batch.actions, batch.advantages)
            d_outputs = np.zeros_like(outputs)
            d_outputs[:, :-1] = d_logits
            self._differentiate(session, batch.x, hidden, d_outputs)
        self._step(session, weight=batch.envs)
        return {"policy_loss": loss, "entropy": entropy, "samples": len(batch.actions)}

    def _clipped(self, batch, session, shuffle):
        """Epochs of clipped-surrogate minibatches. Returns sums for the metrics."""
        n = len(batch.actions)
        total = int(self._world.sum_(np.array([n]))[0])
        minibatches = max(1, round(total / self.config.minibatch_size))
        # each rank cuts its own samples; staggered, so that the ranks' remainders fall into different minibatches
        cuts = (np.arange(minibatches + 1) * n + self._world.rank * minibatches // self._world.size) // minibatches
        sums = dict.fromkeys(("policy_loss", "value_loss", "entropy", "approx_kl", "clip_fraction", "samples"), 0.0)
        for _ in range(self.config.update_epochs):
            with self._phases("gradient"):
                batch.estimate(self.config)
            self._standardise(batch)
            for chosen in _shares(n, cuts, shuffle):
                with self._phases("gradient"):
                    samples = self._clipped_gradient(batch, chosen, session, sums)
                self._step(session, weight=samples, limit=self.config.max_grad_norm)
        return sums

    def _clipped_gradient(self, batch, chosen, session, sums):
        """Write the chosen samples' gradient into the session's buffer, add to ``sums``; returns how many they are."""
        x = batch.x if chosen is _ALL else self.policy.pick(batch.x, chosen)  # picking copies
        actions, config = batch.actions[chosen], self.config
        outputs, hidden = self.policy.forward(session.theta, x)
        log_pi, values = grad.log_softmax(outputs[:, :-1]), outputs[:, -1]
        batch.values[chosen] = values
        loss, d_logits, kl, clipped = grad.clipped_surrogate(
            log_pi, actions, batch.log_probs[chosen], batch.advantages[chosen], config.clip_coef
        )
        entropy, d_entropy = grad.entropy(log_pi)
        value_loss, d_values = grad.value_loss(values, batch.targets[chosen])
        d_outputs = np.empty_like(outputs)
        d_outputs[:, :-1] = d_logits - session.ent_coef * d_entropy
        d_outputs[:, -1] = config.vf_coef * d_values
        self._differentiate(session, x, hidden, d_outputs)
        for name, value in zip(sums, (loss, value_loss, entropy, kl, clipped, len(actions))):
            sums[name] += float(value)
        return len(actions)

    def _differentiate(self, session, x, hidden, d_outputs):
        self.policy.backward(session.theta, x, hidden, d_outputs, session.buffer[:-1])
        products = x.nnz * self.policy.hidden + hidden.size * (d_outputs.shape[1] + 1)
        self.flops += 6 * products  # forward once, backward twice, a multiplication and an addition each

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
        if session.buffer[-1] == 0:
            return  # fewer samples than minibatches: this one is empty on every rank
        with self._phases("optimizer"):
            gradient = session.buffer[:-1]
            gradient /= session.buffer[-1]
            norm = grad.clip_norm(gradient, limit)
            if not np.isfinite(norm):  # the sum is the same on all ranks, so all skip it together
                session.skipped = True
                return
            session.norms.append(norm)
            self.optimizer.step(session.theta, gradient, session.state, session.learning_rate)

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


def _shares(n, cuts, shuffle):
    """This rank's part of each minibatch of a pass: indices in a random order, or all in one piece as they are."""
    if len(cuts) == 2:
        return [_ALL]
    order = shuffle.permutation(n)
    return [order[a:b] for a, b in zip(cuts, cuts[1:])]


class _Session:
    """What one update works on: the touched parameters, their optimizer state, the exchange buffer."""

    def __init__(self, theta, state, learning_rate, ent_coef):
        self.theta, self.state, self.learning_rate, self.ent_coef = theta, state, learning_rate, ent_coef
        self.buffer = np.zeros(theta.size + 1, dtype=theta.dtype)
        self.norms, self.skipped = [], False
