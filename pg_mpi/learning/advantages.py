"""Returns and advantages of one env's steps, in time order.

``ends`` marks the steps after which no later reward counts: the end of a game, and for REINFORCE a reward.
"""

import numpy as np
from numpy.typing import ArrayLike

from pg_mpi.config.array_types import Floats


def discounted_returns(rewards: ArrayLike, ends: ArrayLike, gamma: float) -> Floats:
    """Discounted returns, float64 (T,): R_t = r_t + gamma R_{t+1}, with R_{t+1} = 0 after an end.

    Source: Karpathy, "Deep Reinforcement Learning: Pong from Pixels" (2016), where a point ends the sum.
    """
    return generalised_advantages(rewards, np.zeros(np.shape(rewards)), ends, 0.0, gamma, 1.0).copy()


def standardise(returns: Floats) -> Floats:
    """Scale to mean 0 and population standard deviation 1; all zeros if all are equal."""
    centred = returns - returns.mean()
    deviation = centred.std()
    return centred / deviation if deviation > 0 else np.zeros_like(centred)


def generalised_advantages(
    rewards: ArrayLike, values: ArrayLike, ends: ArrayLike, last_value: float, gamma: float, gae_lambda: float
) -> Floats:
    """Generalised advantage estimates: float64 (T,).

        delta_t = r_t + gamma V_{t+1} - V_t           (V_{t+1} = 0 after an end)
        A_t = delta_t + gamma lambda A_{t+1}          (A_{t+1} = 0 after an end)

    ``last_value`` is V after the last step, where the rollout was cut. Value targets are A + V.
    Source: Schulman et al., "High-Dimensional Continuous Control Using GAE" (2016), eq. 11-16.
    """
    rewards, values = np.asarray(rewards, dtype=float), np.asarray(values, dtype=float)
    discounts = gamma * ~np.asarray(ends, dtype=bool)
    deltas = rewards + discounts * np.append(values[1:], last_value) - values
    advantages, running = [], 0.0
    for delta, decay in zip(deltas.tolist()[::-1], (discounts * gae_lambda).tolist()[::-1]):
        running = delta + decay * running
        advantages.append(running)
    return np.array(advantages)[::-1]
