"""Learning: trajectories → gradient (sum and count) → Allreduce → optimizer → the policy's weights.

Every rank works on its own samples and applies the same step. An update touches only the parameters of
pixels that some rank saw in it, so gradients, exchanges and optimizer steps are done on those rows.
"""

import numpy as np

from pg_mpi.learning.advantages import discounted_returns
from pg_mpi.learning.optimizer import forget
from pg_mpi.learning.reproducible_sum import check, on_grid
from pg_mpi.learning.sample_groups import ALL
from pg_mpi.learning.update_buffers import Sums, UpdateBuffers
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

    def update(self, groups, anneal, confirm=lambda: None):
        """Learn from what this round was lived through, any number of samples on any rank.

        Collective: every rank must call this.

        Args:
            groups: list of ``SampleGroup``, this rank's.
            anneal: factor on the learning rate and on the entropy bonus.
            confirm: called when all is exchanged, before the policy changes: if it raises, nothing has happened
                but for the running counts, which ``restore(kept)`` puts back.

        Returns:
            dict of the metrics of learning, equal on all ranks.
        """
        with self._phases("gradient"):
            self._prepare(groups)
        self.touched = rows = self._touched_rows(groups)
        with self._phases("gradient"):
            self._restrict(groups, rows)
        buffers = self._open(rows, anneal)
        sums = self._learn(groups, buffers)
        metrics = self._metrics(sums, buffers)
        buffers.seen = self._seen(groups, buffers.exact)
        confirm()
        with self._phases("optimizer"):
            self._close(buffers, rows)
        self.skipped += buffers.skipped
        self.skipped_in_row = self.skipped_in_row + 1 if buffers.skipped else 0
        self.kept = self.counters()
        return metrics

    def refresh(self, network):
        """Bring a network up to date with the newest update."""
        self.policy.refresh(network, self.touched)

    def _prepare(self, groups):
        """Make batches of the groups."""
        for group in groups:
            group.prepare(self.policy, self.config.rewards)

    def _used_rows(self, groups):
        """Which parameter rows this rank's samples use: uint8 (rows,), 1 where used."""
        used = np.zeros(self.policy.rows, dtype=np.uint8)
        for group in groups:
            used |= self.policy.used_rows(group.batch.x)
        return used

    def _restrict(self, groups, rows):
        """Bring the batches down to the rows that the update works on."""
        for group in groups:
            group.batch.x = self.policy.restrict(group.batch.x, rows)

    def _learn(self, groups, buffers):
        """Change the buffers' parameters. Returns sums for the metrics. Collective."""
        return (self._reinforce if self.config.method == "reinforce" else self._clipped)(groups, buffers)

    def _open(self, rows, anneal):
        """What an update that touches these parameter rows works on: an ``UpdateBuffers``."""
        theta = self.policy.take(self.policy.theta, rows)
        state = np.stack([self.policy.take(slot, rows) for slot in self.optimizer.state])
        forget(state)
        rate, ent_coef = self.config.learning_rate * anneal, self.config.ent_coef * anneal
        return UpdateBuffers(theta, state, rate, ent_coef, self.optimizer.steps, self.config.reproducible)

    def _close(self, buffers, rows):
        """Put what the update has changed back into the policy and the optimizer."""
        self.optimizer.rest(self.optimizer.steps - buffers.steps_before)
        self.policy.put(self.policy.theta, rows, buffers.theta)
        for slot, changed in zip(self.optimizer.state, buffers.state):
            self.policy.put(slot, rows, changed)
        if buffers.seen is not None:
            self.policy.norm.merge(buffers.seen)

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

    def _seen(self, groups, exact):
        """What the round adds to the sums of the policy's norm, over all ranks; None without. Collective."""
        norm = self.policy.norm
        if norm is None:
            return None
        lived = [trajectory for group in groups for trajectory in group.trajectories]
        sums = np.zeros_like(norm.state)
        for t in lived:
            one = norm.sums(self.policy.numbers(t), discounted_returns(t.rewards, t.ends, self.config.gamma))
            sums += on_grid(one) if exact else one
        sums = self._world.sum_(sums)
        if exact:
            check(sums)
        return sums

    def _touched_rows(self, groups):
        """The parameter rows that any rank's samples use: int64, equal on all ranks."""
        used = self._used_rows(groups)
        with self._phases("wait"):
            self._world.barrier()
        with self._phases("allreduce"):
            return np.flatnonzero(self._world.max_(used))

    def _reinforce(self, groups, buffers):
        """One step along the games' summed gradient, averaged over envs. Returns sums for the metrics."""
        sums = Sums(("policy_loss", "entropy", "samples"), buffers.exact)
        with self._phases("gradient"):
            for group in groups:
                batch = group.batch
                batch.estimate(self.config)
                outputs, hidden = self.policy.forward(buffers.theta, batch.x)
                loss, d_logits, entropy = grad.reinforce(outputs[:, :-1], batch.actions, batch.advantages)
                d_outputs = np.zeros_like(outputs)
                d_outputs[:, :-1] = d_logits
                self._differentiate(buffers, batch.x, hidden, d_outputs)
                sums.add(loss, entropy, len(batch.actions))
        self._step(buffers, weight=sum(group.batch.envs for group in groups))
        return sums

    def _clipped(self, groups, buffers):
        """Epochs of clipped-surrogate minibatches. Returns sums for the metrics."""
        n = sum(len(group.batch.actions) for group in groups)
        total = int(self._world.sum_(np.array([n]))[0])
        minibatches = max(1, round(total / self.config.minibatch_size))
        sums = Sums(("policy_loss", "value_loss", "entropy", "approx_kl", "clip_fraction", "samples"), buffers.exact)
        for _ in range(self.config.update_epochs):
            with self._phases("gradient"):
                for group in groups:
                    group.batch.estimate(self.config)
            self._standardise([group.batch for group in groups], buffers.exact)
            parts = [group.minibatches(minibatches) for group in groups]
            for k in range(minibatches):
                samples = 0
                with self._phases("gradient"):
                    for group, part in zip(groups, parts):
                        samples += self._clipped_gradient(group.batch, part[k], buffers, sums)
                self._step(buffers, weight=samples, limit=self.config.max_grad_norm)
        return sums

    def _clipped_gradient(self, batch, chosen, buffers, sums):
        """Add the chosen samples' gradient to the buffers', and to ``sums``; returns how many they are."""
        x = batch.x if chosen is ALL else self.policy.pick(batch.x, chosen)  # picking copies
        actions, config = batch.actions[chosen], self.config
        outputs, hidden = self.policy.forward(buffers.theta, x)
        values, old = outputs[:, -1], batch.log_probs[chosen]
        batch.values[chosen] = values
        found, d_policy = self.policy.distribution.surrogate(
            outputs[:, :-1], actions, old, batch.advantages[chosen], config.clip_coef, buffers.ent_coef
        )
        loss, entropy, kl, clipped = found
        value_loss, d_values = grad.value_loss(values, batch.targets[chosen])
        d_outputs = np.empty_like(outputs)
        d_outputs[:, :-1] = d_policy
        d_outputs[:, -1] = config.vf_coef * d_values
        self._differentiate(buffers, x, hidden, d_outputs)
        sums.add(loss, value_loss, entropy, kl, clipped, len(actions))
        return len(actions)

    def _differentiate(self, buffers, x, hidden, d_outputs):
        self.policy.backward(buffers.theta, x, hidden, d_outputs, buffers.out)
        buffers.take_in()
        products = self.policy.products(x, hidden, d_outputs.shape[1])
        self.flops += 6 * products  # forward once, backward twice, a multiplication and an addition each

    def _step(self, buffers, weight, limit=np.inf):
        """Sum gradients and weights over ranks, divide once, and take the optimizer's step.

        Collective. The weight travels in the gradient's buffer: whole numbers below 2**24 are exact there.
        """
        if buffers.empty:
            buffers.buffer[:] = 0  # no group here
        buffers.buffer[-1] = weight
        buffers.empty = True
        with self._phases("wait"):
            self._world.barrier()
        with self._phases("allreduce"):
            self._world.sum_(buffers.buffer)
        self.exchanges += 1
        self.bytes_exchanged += buffers.buffer.nbytes
        if buffers.buffer[-1] == 0:
            return  # fewer samples than minibatches: this one is empty on every rank
        with self._phases("optimizer"):
            norm = self._apply(buffers, limit)
        if np.isfinite(norm):
            buffers.norms.append(norm)
        else:  # the sum is the same on all ranks, so all skip it together
            buffers.skipped = True

    def _apply(self, buffers, limit):
        """The optimizer's step along the summed gradient; returns its norm. None is taken along one not finite."""
        gradient = buffers.mean()
        norm = grad.clip_norm(gradient, limit)
        if np.isfinite(norm):
            self.optimizer.step(buffers.theta, gradient, buffers.state, buffers.learning_rate)
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

    def _metrics(self, sums, buffers):
        """Means over all samples of all ranks and exchanges. Collective."""
        totals = self._world.sum_(sums.values)
        means = dict(zip(sums.names, (totals / max(totals[-1], 1)).tolist()))
        del means["samples"]
        empty = {"value_loss": None, "approx_kl": None, "clip_fraction": None}
        norm = float(np.mean(buffers.norms)) if buffers.norms else None
        return {**empty, **means, "grad_norm": norm, "learning_rate": buffers.learning_rate}
