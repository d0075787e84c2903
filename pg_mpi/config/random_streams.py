"""Random streams by (seed, role, env).

The streams of an env are ``SeedSequence(seed, spawn_key=(role, env))``. They do not depend on the rank, so an env plays
the same game on any rank.
"""

import numpy as np

WEIGHTS, STICKY, ACTIONS, SHUFFLE, SURVEY, EVALUATION_STICKY, EVALUATION_ACTIONS, BANDIT, REPLAY, TUNE = range(10)


def stream(seed, role, env=0):
    """A numpy ``Generator`` for one role of one env."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(role, env))))
