"""Oracle of the clipped update (PPO): dense float64 numpy, one process, independent of the package.

Policy, for inputs x (n, D) and A actions:

    h = max(0, x w1 + b1)        (z, V) = h w2 + x w3 + b2        pi = softmax(z)

with w1 (D, H), b1 (H,), w2 (H, A + 1), w3 (D, A + 1), b2 (A + 1,); the last output is the value V. An update runs
several epochs over its samples. Each epoch first estimates advantages and value targets (GAE) from the newest value of
each sample: that of its minibatch in the previous epoch, and in the first epoch that of the rollout. The
advantages of all samples are shifted to mean 0 and scaled to deviation 1; if no sample was rewarded, they are 0. Then
each minibatch takes one Adam step down the gradient of

    mean of  -min(rho A, clip(rho, 1 - c, 1 + c) A) + vf_coef (V - target)^2 / 2 - ent_coef H(pi),   rho = pi / pi_old

clipped to a global norm. Rows of w1 and w3 whose input is 0 in all samples of the update are not changed.

Sources: Schulman et al., "Proximal Policy Optimization" (2017), eq. 7 and 9; Schulman et al., "High-Dimensional
Continuous Control Using GAE" (2016), eq. 16; Kingma & Ba, "Adam" (2015), algorithm 1, with epsilon outside the root.
"""

from dataclasses import dataclass

import numpy as np

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-5


@dataclass
class Rollout:
    """Steps of one env in time order.

    Attributes:
        x: (T, D). actions: int (T,). log_probs, values, rewards: (T,), of the policy that acted.
        ends: bool (T,), the step ended its episode.
        after: (T,), where a step ended its episode or is the last one, the value of the state that it led to: 0 after a
            terminal step. Other entries are not read.
    """

    x: np.ndarray
    actions: np.ndarray
    log_probs: np.ndarray
    values: np.ndarray
    rewards: np.ndarray
    ends: np.ndarray
    after: np.ndarray


def advantages(rollout, values, gamma, gae_lambda):
    """A_t = sum_k (gamma lambda)^k delta_{t+k} up to the end of the episode or of the rollout: (T,)."""
    steps = len(values)
    last = [rollout.ends[t] or t == steps - 1 for t in range(steps)]
    following = [rollout.after[t] if last[t] else values[t + 1] for t in range(steps)]
    delta = rollout.rewards + gamma * np.array(following) - values
    found = np.zeros(steps)
    for t in range(steps):
        for k in range(t, steps):
            found[t] += (gamma * gae_lambda) ** (k - t) * delta[k]
            if last[k]:
                break
    return found


class ClippedLearner:
    """Parameters, a dict of ``w1``, ``b1``, ``w2``, ``w3`` and ``b2``, and Adam's moments of them."""

    def __init__(self, parameters, gamma, gae_lambda, clip_coef, vf_coef, max_grad_norm):
        self.theta = {name: np.array(value, dtype=np.float64) for name, value in parameters.items()}
        self.m = {name: np.zeros_like(value) for name, value in self.theta.items()}
        self.v = {name: np.zeros_like(value) for name, value in self.theta.items()}
        self.steps = 0
        self.gamma, self.gae_lambda, self.clip_coef = gamma, gae_lambda, clip_coef
        self.vf_coef, self.max_grad_norm = vf_coef, max_grad_norm

    def forward(self, x):
        """Hidden (n, H), log-probabilities (n, A) and values (n,) of inputs (n, D)."""
        hidden = np.maximum(0, x @ self.theta["w1"] + self.theta["b1"])
        outputs = hidden @ self.theta["w2"] + x @ self.theta["w3"] + self.theta["b2"]
        logits = outputs[:, :-1]
        return hidden, logits - np.log(np.exp(logits).sum(axis=1, keepdims=True)), outputs[:, -1]

    def update(self, rollouts, epochs, learning_rate, ent_coef):
        """Run one update.

        Args:
            rollouts: list of ``Rollout``. Samples are numbered across all rollouts.
            epochs: for each epoch, the sample numbers of each minibatch: lists of int arrays.

        Returns:
            dict of means over all samples of all epochs, and ``grad_norm``, the list of norms before clipping.
        """
        x, actions, old, values = (
            np.concatenate([getattr(rollout, name) for rollout in rollouts])
            for name in ("x", "actions", "log_probs", "values")
        )
        active_inputs = (x != 0).any(axis=0)
        rewarded = any((rollout.rewards != 0).any() for rollout in rollouts)
        bounds = np.cumsum([len(rollout.actions) for rollout in rollouts])[:-1]
        norms, sums = [], np.zeros(6)
        for minibatches in epochs:
            raw = [
                advantages(rollout, part, self.gamma, self.gae_lambda)
                for rollout, part in zip(rollouts, np.split(values, bounds), strict=True)
            ]
            raw = np.concatenate(raw)
            targets = raw + values
            scaled = (raw - raw.mean()) / (raw.std() + 1e-8) if rewarded else np.zeros_like(raw)
            values = values.copy()
            for chosen in minibatches:
                gradient, values[chosen], found = self._gradient(
                    x[chosen], actions[chosen], old[chosen], scaled[chosen], targets[chosen], ent_coef
                )
                sums += [*found, len(chosen)]
                norms.append(np.sqrt(sum((g**2).sum() for g in gradient.values())))
                scale = min(1.0, self.max_grad_norm / norms[-1])
                self._adam({name: g * scale for name, g in gradient.items()}, learning_rate, active_inputs)
        names = ("policy_loss", "value_loss", "entropy", "approx_kl", "clip_fraction")
        return dict(zip(names, sums[:-1] / sums[-1], strict=True)) | {"grad_norm": norms}

    def _gradient(self, x, actions, old, advantage, target, ent_coef):
        """The gradient of the mean loss, the values (n,) before the step, and sums for the metrics."""
        n = len(x)
        hidden, log_pi, value = self.forward(x)
        pi, one_hot = np.exp(log_pi), np.eye(log_pi.shape[1])[actions]
        log_ratio = (log_pi * one_hot).sum(axis=1) - old
        rho, c = np.exp(log_ratio), self.clip_coef
        unclipped = np.where(advantage > 0, rho <= 1 + c, rho >= 1 - c)  # clipped samples have no gradient
        d_log_prob = np.where(unclipped, -rho * advantage, 0)
        entropy = -(pi * log_pi).sum(axis=1)
        d_logits = d_log_prob[:, None] * (one_hot - pi) + ent_coef * pi * (log_pi + entropy[:, None])
        d_outputs = np.column_stack((d_logits, self.vf_coef * (value - target))) / n
        d_hidden = (d_outputs @ self.theta["w2"].T) * (hidden > 0)
        gradient = {
            "w1": x.T @ d_hidden,
            "b1": d_hidden.sum(axis=0),
            "w2": hidden.T @ d_outputs,
            "w3": x.T @ d_outputs,
            "b2": d_outputs.sum(axis=0),
        }
        surrogate = np.minimum(rho * advantage, np.clip(rho, 1 - c, 1 + c) * advantage)
        return gradient, value, (
            -surrogate.sum(),
            ((value - target) ** 2).sum() / 2,
            entropy.sum(),
            (rho - 1 - log_ratio).sum(),
            (abs(rho - 1) > c).sum(),
        )  # fmt: skip

    def _adam(self, gradient, learning_rate, active_inputs):
        self.steps += 1
        for name, g in gradient.items():
            rows = active_inputs if name in ("w1", "w3") else slice(None)
            m = self.m[name][rows] = BETA1 * self.m[name][rows] + (1 - BETA1) * g[rows]
            v = self.v[name][rows] = BETA2 * self.v[name][rows] + (1 - BETA2) * g[rows] ** 2
            m_hat, v_hat = m / (1 - BETA1**self.steps), v / (1 - BETA2**self.steps)
            self.theta[name][rows] -= learning_rate * m_hat / (np.sqrt(v_hat) + EPSILON)
