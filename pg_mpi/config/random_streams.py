"""Random streams by identity: (seed, role, env), never by rank.

Env 7 plays the same game whichever rank owns it, because its streams are
``SeedSequence(seed, spawn_key=(role, env))`` and rank numbers appear nowhere.
"""

import numpy as np

WEIGHTS, STICKY, ACTIONS, SHUFFLE, SURVEY, EVALUATION_STICKY, EVALUATION_ACTIONS, BANDIT, REPLAY, TUNE = range(10)


def stream(seed, role, env=0):
    """A numpy ``Generator`` for one role of one env."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(role, env))))
