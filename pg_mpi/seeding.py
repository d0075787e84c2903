"""Random streams by identity: (seed, role, env), never by rank.

Env 7 plays the same game whichever rank owns it, because its streams are
``SeedSequence(seed, spawn_key=(role, env))`` and rank numbers appear nowhere.
"""

import numpy as np

WEIGHTS, EMULATOR, ACTIONS, SHUFFLE, SURVEY, EVALUATION = range(6)


def stream(seed, role, env=0):
    """A numpy ``Generator`` for one role of one env."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(role, env))))


def emulator_seed(seed, env, role=EMULATOR):
    """The 31-bit integer that seeds one env's emulator (its sticky actions)."""
    word = np.random.SeedSequence(seed, spawn_key=(role, env)).generate_state(1)[0]
    return int(word & 0x7FFFFFFF)
