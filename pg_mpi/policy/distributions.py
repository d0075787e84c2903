"""Action distributions: sampling, and the derivative of the clipped surrogate by the policy's outputs."""

from collections.abc import Sequence
from math import log, pi

import numpy as np

from pg_mpi.config.array_types import Floats, Integers
from pg_mpi.policy import losses

_HALF_LOG_2PI = 0.5 * log(2 * pi)


class Categorical:
    """Categorical distribution over A actions. The outputs (n, A) are logits."""

    def __init__(self, actions: int) -> None:
        self.outputs = actions

    def sample(self, outputs: Floats, generators: Sequence[np.random.Generator]) -> tuple[Integers, Floats]:
        """Sample an action for each row with its own generator: int64 (n,) and log-probabilities (n,)."""
        log_pi = losses.log_softmax(outputs)
        sums = np.exp(log_pi).cumsum(axis=1)
        uniform = np.array([rng.random() for rng in generators]) * sums[:, -1]
        actions: Integers = np.minimum((sums <= uniform[:, None]).sum(axis=1), self.outputs - 1)
        return actions, log_pi[np.arange(len(actions)), actions]

    def likeliest(self, outputs: Floats) -> Integers:
        """Return the most probable action of each row: int64 (n,)."""
        likeliest: Integers = outputs.argmax(axis=1)
        return likeliest

    def surrogate(
        self, outputs: Floats, actions: Integers, old_log_prob: Floats, advantages: Floats, clip: float, ent_coef: float
    ) -> tuple[tuple[float, float, float, int], Floats]:
        """Return sums over samples (loss, entropy, KL estimate, clipped ratios) and the derivative by the outputs.

        The derivative (n, A) is that of the clipped surrogate's loss minus ``ent_coef`` times the entropy.
        """
        log_pi = losses.log_softmax(outputs)
        taken = np.arange(len(actions)), actions
        loss, weight, kl, clipped = losses.clipped_ratio(log_pi[taken] - old_log_prob, advantages, clip)
        d_logits = np.exp(log_pi) * weight[:, None]
        d_logits[taken] -= weight
        entropy, d_entropy = losses.entropy(log_pi)
        return (loss, entropy, kl, clipped), d_logits - ent_coef * d_entropy


class Gaussian:
    """Diagonal normal distribution of d numbers. The outputs (n, 2 d) are means and log standard deviations."""

    def __init__(self, numbers: int) -> None:
        self._numbers = numbers
        self.outputs = 2 * numbers

    def likeliest(self, outputs: Floats) -> Floats:
        """Return the most probable action of each row, the mean: (n, d)."""
        return outputs[:, : self._numbers]

    def sample(self, outputs: Floats, generators: Sequence[np.random.Generator]) -> tuple[Floats, Floats]:
        """Sample an action for each row with its own generator: actions (n, d) and log-probabilities (n,)."""
        mean, log_std = outputs[:, : self._numbers], outputs[:, self._numbers :]
        noise = np.array([rng.standard_normal(self._numbers) for rng in generators])
        return mean + np.exp(log_std) * noise, self._log_prob(noise, log_std)

    def surrogate(
        self, outputs: Floats, actions: Floats, old_log_prob: Floats, advantages: Floats, clip: float, ent_coef: float
    ) -> tuple[tuple[float, float, float, int], Floats]:
        """See ``Categorical.surrogate``. The derivative is (n, 2 d).

        d log p / d mean = z / s and d log p / d log s = z^2 - 1 with z = (a - mean) / s; the entropy is
        sum log s + d/2 log(2 pi e).
        """
        mean, log_std = outputs[:, : self._numbers], outputs[:, self._numbers :]
        deviation = np.exp(log_std)
        z = (actions - mean) / deviation
        log_ratio = self._log_prob(z, log_std) - old_log_prob
        loss, weight, kl, clipped = losses.clipped_ratio(log_ratio, advantages, clip)
        entropy = float(log_std.sum()) + len(actions) * self._numbers * (_HALF_LOG_2PI + 0.5)
        by_mean, by_log_std = -weight[:, None] * z / deviation, -weight[:, None] * (z * z - 1) - ent_coef
        return (loss, entropy, kl, clipped), np.concatenate((by_mean, by_log_std), axis=1)

    def _log_prob(self, z: Floats, log_std: Floats) -> Floats:
        """Return -sum (z^2 / 2 + log s + log(2 pi) / 2): (n,)."""
        total: Floats = -(0.5 * z * z + log_std).sum(axis=1) - self._numbers * _HALF_LOG_2PI
        return total


Head = Categorical | Gaussian
