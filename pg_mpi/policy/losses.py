"""Losses and their derivatives by the policy's outputs, as sums over samples.

A sum is exchanged together with its count and divided once, after the Allreduce. Every sample therefore has the same
weight, also if ranks have unequal numbers of samples. Losses are to be minimised.
"""

import numpy as np

from pg_mpi.config.array_types import Floats, Integers


def log_softmax(logits: Floats) -> Floats:
    """Return log softmax over the last axis: (n, A) → (n, A)."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    result: Floats = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return result


def reinforce(logits: Floats, actions: Integers, advantages: Floats) -> tuple[float, Floats, float]:
    """REINFORCE loss -sum_t A_t log pi(a_t). Returns (loss, d_logits (n, A), entropy sum).

    d/dlogits = A_t (pi - 1{a_t}).  Source: Williams (1992).
    """
    log_pi = log_softmax(logits)
    pi = np.exp(log_pi)
    taken = np.arange(len(actions)), actions
    d_logits = pi * advantages[:, None]
    d_logits[taken] -= advantages
    return -float((log_pi[taken] * advantages).sum()), d_logits, -float((pi * log_pi).sum())


def clipped_ratio(log_ratio: Floats, advantages: Floats, clip: float) -> tuple[float, Floats, float, int]:
    """Clipped surrogate loss -sum_t min(rho_t A_t, clip(rho_t, 1-c, 1+c) A_t), rho = pi(a)/pi_old(a), from log rho.

    Returns (loss, the derivative of -loss by each log-probability (n,), KL estimate sum of rho - 1 - log rho, count of
    clipped ratios). Source: Schulman et al., "Proximal Policy Optimization" (2017), eq. 7.
    """
    ratio = np.exp(log_ratio)
    bounded = np.clip(ratio, 1 - clip, 1 + clip)
    loss = -float(np.minimum(ratio * advantages, bounded * advantages).sum())
    active = ratio * advantages <= bounded * advantages
    weight = ratio * advantages * active
    return loss, weight, float((ratio - 1 - log_ratio).sum()), int(np.count_nonzero(np.abs(ratio - 1) > clip))


def entropy(log_pi: Floats) -> tuple[float, Floats]:
    """Return the sum of the entropies H = -sum_a pi log pi and its derivative: (float, d_logits (n, A)).

    dH/dlogit_a = -pi_a (log pi_a + H).
    """
    pi = np.exp(log_pi)
    per_sample = -(pi * log_pi).sum(axis=1, keepdims=True)
    return float(per_sample.sum()), -pi * (log_pi + per_sample)


def value_loss(values: Floats, targets: Floats) -> tuple[float, Floats]:
    """Value loss sum of (V - target)^2 / 2. Returns (loss, derivative (n,))."""
    error = values - targets
    return 0.5 * float(error @ error), error


def self_imitation(logits: Floats, actions: Integers, values: Floats, returns: Floats) -> tuple[float, Floats, Floats]:
    """Self-imitation losses -sum_t g_t log pi(a_t), with constant g_t = max(R_t - V_t, 0), and sum_t g_t^2 / 2.

    Returns (first loss, its derivative (n, A) by the logits, derivative (n,) of the second by the values, -g).
    Source: Oh et al., "Self-Imitation Learning" (2018), eq. 2 and 3.
    """
    gain = np.maximum(returns - values, 0)
    loss, d_logits, _ = reinforce(logits, actions, gain)
    return loss, d_logits, -gain
