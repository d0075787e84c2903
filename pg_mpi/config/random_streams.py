"""Random streams by (seed, role, env).

The streams of an env are ``SeedSequence(seed, spawn_key=(role, env))``. If it was restarted after an update, the
key ends with it. Streams do not depend on the rank, so an env plays the same game on any rank. Where a role has no env,
the number is that of a game, a run, a trial, or the first env of a replay buffer.
"""

import numpy as np

WEIGHTS, STICKY, ACTIONS, SHUFFLE, CALIBRATION, EVALUATION_STICKY, EVALUATION_ACTIONS, BANDIT, REPLAY, TUNE = range(10)


def stream(seed: int, role: int, env: int = 0, update: int = 0) -> np.random.Generator:
    """A numpy ``Generator`` for one role of one env, restarted after ``update``."""
    key = (role, env, update) if update else (role, env)
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=key)))
