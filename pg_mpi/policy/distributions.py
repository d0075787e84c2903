"""What a policy's outputs mean: how actions are drawn from them, and the clipped surrogate's derivative by them."""

from collections.abc import Sequence
from math import log, pi
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pg_mpi.policy import losses as grad

Floats = NDArray[np.floating[Any]]
Integers = NDArray[np.integer[Any]]

_HALF_LOG_2PI = 0.5 * log(2 * pi)


class Categorical:
    """One of A actions, outputs (n, A): its logits."""

    def __init__(self, actions: int) -> None:
        self.outputs = actions

    def draw(self, outputs: Floats, chances: Sequence[np.random.Generator]) -> tuple[Integers, Floats]:
        """An action for each row, drawn with its own generator: int64 (n,) and log-probabilities (n,)."""
        log_pi = grad.log_softmax(outputs)
        sums = np.exp(log_pi).cumsum(axis=1)
        uniform = np.array([chance.random() for chance in chances]) * sums[:, -1]
        actions: Integers = np.minimum((sums <= uniform[:, None]).sum(axis=1), self.outputs - 1)
        return actions, log_pi[np.arange(len(actions)), actions]

    def likeliest(self, outputs: Floats) -> Integers:
        """The most probable action of each row: int64 (n,)."""
        likeliest: Integers = outputs.argmax(axis=1)
        return likeliest

    def surrogate(
        self, outputs: Floats, actions: Integers, old_log_prob: Floats, advantages: Floats, clip: float, ent_coef: float
    ) -> tuple[tuple[float, float, float, int], Floats]:
        """Sums over samples (loss, entropy, KL estimate, clipped ratios), and the derivative (n, A) by the outputs.

        The derivative is that of the clipped surrogate's loss minus ``ent_coef`` times the entropy.
        """
        log_pi = grad.log_softmax(outputs)
        loss, d_logits, kl, clipped = grad.clipped_surrogate(log_pi, actions, old_log_prob, advantages, clip)
        entropy, d_entropy = grad.entropy(log_pi)
        return (loss, entropy, kl, clipped), d_logits - ent_coef * d_entropy


class Gaussian:
    """d numbers, each normal with a mean and a deviation of its own: outputs (n, 2 d), means and log deviations."""

    def __init__(self, numbers: int) -> None:
        self._numbers = numbers
        self.outputs = 2 * numbers

    def likeliest(self, outputs: Floats) -> Floats:
        """The most probable action of each row, the mean: (n, d)."""
        return outputs[:, : self._numbers]

    def draw(self, outputs: Floats, chances: Sequence[np.random.Generator]) -> tuple[Floats, Floats]:
        """An action for each row, drawn with its own generator: actions (n, d) and their log-probabilities (n,)."""
        mean, log_std = outputs[:, : self._numbers], outputs[:, self._numbers :]
        noise = np.array([chance.standard_normal(self._numbers) for chance in chances])
        return mean + np.exp(log_std) * noise, self._log_prob(noise, log_std)

    def surrogate(
        self, outputs: Floats, actions: Floats, old_log_prob: Floats, advantages: Floats, clip: float, ent_coef: float
    ) -> tuple[tuple[float, float, float, int], Floats]:
        """As ``Categorical.surrogate``.

        d log p / d mean = z / s and d log p / d log s = z^2 - 1 with z = (a - mean) / s; the entropy is
        sum log s + d/2 log(2 pi e).
        """
        mean, log_std = outputs[:, : self._numbers], outputs[:, self._numbers :]
        deviation = np.exp(log_std)
        z = (actions - mean) / deviation
        log_ratio = self._log_prob(z, log_std) - old_log_prob
        loss, weight, kl, clipped = grad.clipped_ratio(log_ratio, advantages, clip)
        entropy = float(log_std.sum()) + len(actions) * self._numbers * (_HALF_LOG_2PI + 0.5)
        by_mean, by_log_std = -weight[:, None] * z / deviation, -weight[:, None] * (z * z - 1) - ent_coef
        return (loss, entropy, kl, clipped), np.concatenate((by_mean, by_log_std), axis=1)

    def _log_prob(self, z: Floats, log_std: Floats) -> Floats:
        """-sum z^2 / 2 + log s + log(2 pi) / 2: (n,)."""
        total: Floats = -(0.5 * z * z + log_std).sum(axis=1) - self._numbers * _HALF_LOG_2PI
        return total
