"""Learning: trajectories → gradient (sum and count) → Allreduce → optimizer → the policy's weights.

Every rank works on its own samples and applies the same step. An update touches only the parameters of
pixels that some rank saw in it, so gradients, exchanges and optimizer steps are done on those rows.
"""

import numpy as np

from pg_mpi.learning.advantages import discounted_returns
from pg_mpi.learning.optimizer import forget
from pg_mpi.learning.reproducible_sum import check, on_grid
from pg_mpi.learning.sample_groups import ALL
from pg_mpi.learning.update_buffers import Session, Sums
from pg_mpi.policy import losses as grad


class Learner:
    """One update after another, on all ranks together.

    Attributes:
        exchanges, bytes_exchanged: running counts of the run; ``skipped`` of its updates with a gradient that was not
            finite, ``skipped_in_row`` of the newest ones.
        flops: floating-point operations of this rank since it started.
        touched: int64, the parameter rows that the newest update worked on.
        kept: the running counts after the newest update that is done, see ``counters``.
    """

    _COUNTERS = ("exchanges", "bytes_exchanged", "skipped")

    def __init__(self, policy, optimizer, config, world, phases):
        self.policy, self.optimizer, self.config = policy, optimizer, config
        self._world, self._phases = world, phases
        self.exchanges = self.bytes_exchanged = self.flops = self.skipped = self.skipped_in_row = 0
        self.kept = self.counters()

    def update(self, shares, anneal, confirm=lambda: None):
        """Learn from what this round was lived through, any number of samples on any rank.

        Collective: every rank must call this.

        Args:
            shares: list of ``Share``, this rank's.
            anneal: factor on the learning rate and on the entropy bonus.
            confirm: called when all is exchanged, before the policy changes: if it raises, nothing has happened
                but for the running counts, which ``restore(kept)`` puts back.

        Returns:
            dict of the metrics of learning, equal on all ranks.
        """
        with self._phases("gradient"):
            self._prepare(shares)
        self.touched = rows = self._touched_rows(shares)
        with self._phases("gradient"):
            self._restrict(shares, rows)
        session = self._open(rows, anneal)
        sums = self._learn(shares, session)
        metrics = self._metrics(sums, session)
        session.seen = self._seen(shares, session.exact)
        confirm()
        with self._phases("optimizer"):
            self._close(session, rows)
        self.skipped += session.skipped
        self.skipped_in_row = self.skipped_in_row + 1 if session.skipped else 0
        self.kept = self.counters()
        return metrics

    def refresh(self, network):
        """Bring a network up to date with the newest update."""
        self.policy.refresh(network, self.touched)

    def _prepare(self, shares):
        """Make batches of the shares."""
        for share in shares:
            share.prepare(self.policy, self.config.rewards)

    def _used_rows(self, shares):
        """Which parameter rows this rank's samples use: uint8 (rows,), 1 where used."""
        used = np.zeros(self.policy.rows, dtype=np.uint8)
        for share in shares:
            used |= self.policy.used_rows(share.batch.x)
        return used

    def _restrict(self, shares, rows):
        """Bring the batches down to the rows that the update works on."""
        for share in shares:
            share.batch.x = self.policy.restrict(share.batch.x, rows)

    def _learn(self, shares, session):
        """Change the session's parameters. Returns sums for the metrics. Collective."""
        return (self._reinforce if self.config.method == "reinforce" else self._clipped)(shares, session)

    def _open(self, rows, anneal):
        """What an update that touches these parameter rows works on: a ``Session``."""
        theta = self.policy.take(self.policy.theta, rows)
        state = np.stack([self.policy.take(slot, rows) for slot in self.optimizer.state])
        forget(state)
        rate, ent_coef = self.config.learning_rate * anneal, self.config.ent_coef * anneal
        return Session(theta, state, rate, ent_coef, self.optimizer.steps, self.config.reproducible)

    def _close(self, session, rows):
        """Put what the update has changed back into the policy and the optimizer."""
        self.optimizer.rest(self.optimizer.steps - session.steps_before)
        self.policy.put(self.policy.theta, rows, session.theta)
        for slot, changed in zip(self.optimizer.state, session.state):
            self.policy.put(slot, rows, changed)
        if session.seen is not None:
            self.policy.scaler.merge(session.seen)

    def counters(self):
        """The running counts, for a checkpoint: a JSON-able dict."""
        return {name: getattr(self, name) for name in self._COUNTERS} | {"steps": self.optimizer.steps}

    def restore(self, counters):
        """Continue from ``counters``."""
        found = {name: int(counters[name]) for name in ("steps", *self._COUNTERS)}
        if min(found.values()) < 0:
            raise ValueError(f"counters {counters}")
        self.optimizer.steps = found.pop("steps")
        for name, count in found.items():
            setattr(self, name, count)
        self.kept = self.counters()

    def memory(self):
        """What it knows of the past besides the optimizer's state, (arrays, dict for JSON), or None."""

    def recall(self, memories):
        """Take up what ranks of a saved run gave as ``memory``, (rank, arrays, dict) each: nothing here."""

    def _seen(self, shares, exact):
        """What the round adds to the sums of the policy's scaler, over all ranks; None without. Collective."""
        scaler = self.policy.scaler
        if scaler is None:
            return None
        lived = [trajectory for share in shares for trajectory in share.trajectories]
        sums = np.zeros_like(scaler.state)
        for t in lived:
            one = scaler.sums(self.policy.numbers(t), discounted_returns(t.rewards, t.ends, self.config.gamma))
            sums += on_grid(one) if exact else one
        sums = self._world.sum_(sums)
        if exact:
            check(sums)
        return sums

    def _touched_rows(self, shares):
        """The parameter rows that any rank's samples use: int64, equal on all ranks."""
        used = self._used_rows(shares)
        with self._phases("wait"):
            self._world.barrier()
        with self._phases("allreduce"):
            return np.flatnonzero(self._world.max_(used))

    def _reinforce(self, shares, session):
        """One step along the games' summed gradient, averaged over envs. Returns sums for the metrics."""
        sums = Sums(("policy_loss", "entropy", "samples"), session.exact)
        with self._phases("gradient"):
            for share in shares:
                batch = share.batch
                batch.estimate(self.config)
                outputs, hidden = self.policy.forward(session.theta, batch.x)
                loss, d_logits, entropy = grad.reinforce(outputs[:, :-1], batch.actions, batch.advantages)
                d_outputs = np.zeros_like(outputs)
                d_outputs[:, :-1] = d_logits
                self._differentiate(session, batch.x, hidden, d_outputs)
                sums.add(loss, entropy, len(batch.actions))
        self._step(session, weight=sum(share.batch.envs for share in shares))
        return sums

    def _clipped(self, shares, session):
        """Epochs of clipped-surrogate minibatches. Returns sums for the metrics."""
        n = sum(len(share.batch.actions) for share in shares)
        total = int(self._world.sum_(np.array([n]))[0])
        minibatches = max(1, round(total / self.config.minibatch_size))
        sums = Sums(("policy_loss", "value_loss", "entropy", "approx_kl", "clip_fraction", "samples"), session.exact)
        for _ in range(self.config.update_epochs):
            with self._phases("gradient"):
                for share in shares:
                    share.batch.estimate(self.config)
            self._standardise([share.batch for share in shares], session.exact)
            parts = [share.minibatches(minibatches) for share in shares]
            for k in range(minibatches):
                samples = 0
                with self._phases("gradient"):
                    for share, part in zip(shares, parts):
                        samples += self._clipped_gradient(share.batch, part[k], session, sums)
                self._step(session, weight=samples, limit=self.config.max_grad_norm)
        return sums

    def _clipped_gradient(self, batch, chosen, session, sums):
        """Add the chosen samples' gradient to the session's, and to ``sums``; returns how many they are."""
        x = batch.x if chosen is ALL else self.policy.pick(batch.x, chosen)  # picking copies
        actions, config = batch.actions[chosen], self.config
        outputs, hidden = self.policy.forward(session.theta, x)
        values, old = outputs[:, -1], batch.log_probs[chosen]
        batch.values[chosen] = values
        found, d_policy = self.policy.heads.surrogate(
            outputs[:, :-1], actions, old, batch.advantages[chosen], config.clip_coef, session.ent_coef
        )
        loss, entropy, kl, clipped = found
        value_loss, d_values = grad.value_loss(values, batch.targets[chosen])
        d_outputs = np.empty_like(outputs)
        d_outputs[:, :-1] = d_policy
        d_outputs[:, -1] = config.vf_coef * d_values
        self._differentiate(session, x, hidden, d_outputs)
        sums.add(loss, value_loss, entropy, kl, clipped, len(actions))
        return len(actions)

    def _differentiate(self, session, x, hidden, d_outputs):
        self.policy.backward(session.theta, x, hidden, d_outputs, session.out)
        session.take_in()
        products = self.policy.products(x, hidden, d_outputs.shape[1])
        self.flops += 6 * products  # forward once, backward twice, a multiplication and an addition each

    def _step(self, session, weight, limit=np.inf):
        """Sum gradients and weights over ranks, divide once, and take the optimizer's step.

        Collective. The weight travels in the gradient's buffer: whole numbers below 2**24 are exact there.
        """
        if session.empty:
            session.buffer[:] = 0  # no share here
        session.buffer[-1] = weight
        session.empty = True
        with self._phases("wait"):
            self._world.barrier()
        with self._phases("allreduce"):
            self._world.sum_(session.buffer)
        self.exchanges += 1
        self.bytes_exchanged += session.buffer.nbytes
        if session.buffer[-1] == 0:
            return  # fewer samples than minibatches: this one is empty on every rank
        with self._phases("optimizer"):
            norm = self._apply(session, limit)
        if np.isfinite(norm):
            session.norms.append(norm)
        else:  # the sum is the same on all ranks, so all skip it together
            session.skipped = True

    def _apply(self, session, limit):
        """The optimizer's step along the summed gradient; returns its norm. None is taken along one not finite."""
        gradient = session.mean()
        norm = grad.clip_norm(gradient, limit)
        if np.isfinite(norm):
            self.optimizer.step(session.theta, gradient, session.state, session.learning_rate)
        return norm

    def _standardise(self, batches, exact):
        """Advantages to mean 0 and deviation 1 over all ranks' samples. Collective.

        Where no sample was rewarded they are errors of the values alone, and the optimizer would scale them up to steps
        like any others. Then they are 0: the policy learns from its entropy bonus alone.
        """
        whole = on_grid if exact else np.asarray
        n = sum(len(batch.advantages) for batch in batches)
        one = sum(whole(batch.advantages.sum(dtype=np.float64)) for batch in batches)
        rewarded = sum(batch.rewarded for batch in batches)
        total = self._world.sum_(np.array([n, one, rewarded], dtype=np.float64))
        if exact:
            check(total)
        mean = total[1] / total[0]
        two = sum(whole(((batch.advantages - mean) ** 2).sum(dtype=np.float64)) for batch in batches)
        squares = self._world.sum_(np.array([two], dtype=np.float64))
        if exact:
            check(squares)
        deviation = np.sqrt(squares[0] / total[0]) + 1e-8 if total[2] else np.inf
        for batch in batches:
            batch.advantages -= mean
            batch.advantages /= deviation

    def _metrics(self, sums, session):
        """Means over all samples of all ranks and exchanges. Collective."""
        totals = self._world.sum_(sums.values)
        means = dict(zip(sums.names, (totals / max(totals[-1], 1)).tolist()))
        del means["samples"]
        empty = {"value_loss": None, "approx_kl": None, "clip_fraction": None}
        norm = float(np.mean(session.norms)) if session.norms else None
        return {**empty, **means, "grad_norm": norm, "learning_rate": session.learning_rate}
