"""A run ↔ a checkpoint: what of every rank is saved, and how it is dealt out again."""

import numpy as np

from pg_mpi.build import Knowledge
from pg_mpi.config import TrainConfig
from pg_mpi.errors import CheckpointError, UsageError

FORMAT = 2


def collect(world, config, knowledge, learner, tally, envs):
    """The arrays and facts of the whole run on rank 0; None elsewhere. Collective: every rank must call this.

    Envs are saved in the order of their index, with all that belongs to them, so that any number of ranks
    that divides their number can take them up again. The arrays (P parameters, E envs, B backgrounds):

        theta          float32 (P,)          the policy's parameters
        optimizer      float32 (slots, P)    Adam: m and v; RMSProp: its cache
        backgrounds    uint8 (B, 80, 80)
        emulators      uint8 (bytes,)        every env's emulator state, one after another
        emulator_sizes int64 (E,)
        masks          uint8 (E, 3, 800)     every env's last three active masks, packed
    """
    parts = world.gather([env.state() for env in envs])
    if parts is None:
        return None
    states = [state for part in parts for state in part]
    emulators = [arrays["emulator"] for arrays, _ in states]
    arrays = {
        "theta": learner.policy.theta,
        "optimizer": learner.optimizer.state,
        "backgrounds": knowledge.backgrounds,
        "emulators": np.concatenate(emulators),
        "emulator_sizes": np.array([len(state) for state in emulators]),
        "masks": np.stack([arrays["masks"] for arrays, _ in states]),
    }
    facts = {
        "format": FORMAT,
        "identity": _identity(config),
        "codes": knowledge.codes,
        "swap": knowledge.swap,
        "tally": tally.state(),
        "learner": learner.counters(),
        "envs": [env_facts for _, env_facts in states],
    }
    return arrays, facts


def knowledge_of(arrays, facts):
    """What the saved run knew of its game."""
    return Knowledge(arrays["backgrounds"], facts["codes"], facts["swap"])


def config_of(path, facts):
    """The settings of the saved run. Raises ``CheckpointError`` for a file of another version."""
    try:
        if facts["format"] == FORMAT:
            return TrainConfig(**facts["identity"])
    except (KeyError, TypeError):
        pass
    raise CheckpointError(f"{path} is not a checkpoint of this version of pg_mpi")


def check_fits(path, facts, config, ranks):
    """The envs per rank with which this run goes on from a checkpoint.

    Raises ``UsageError`` if the checkpoint is of a run with other settings, or its envs do not divide.
    """
    saved, ours, envs = _identity(config_of(path, facts)), _identity(config), len(facts["envs"])
    names = sorted(name for name in ours if saved[name] != ours[name])
    if names:
        listed = ", ".join(f"{name} {saved[name]} there, {ours[name]} here" for name in names)
        raise UsageError(
            f"{path} belongs to a run with other settings ({listed}): give the same settings to go on, "
            "or another --run-dir"
        )
    if envs % ranks:
        raise UsageError(f"{path} holds {envs} envs, which {ranks} ranks cannot share equally: use a divisor of {envs}")
    return envs // ranks


def apply(arrays, facts, policy, learner, tally, envs):
    """Put a saved run back: all ranks the same weights and counters, and each its own envs. Not collective."""
    fill(policy.theta, arrays["theta"])
    fill(learner.optimizer.state, arrays["optimizer"])
    learner.restore(facts["learner"])
    tally.restore(facts["tally"])
    cuts = np.cumsum(arrays["emulator_sizes"])
    emulators = np.split(arrays["emulators"], cuts[:-1])
    for env in envs:
        env.restore({"emulator": emulators[env.index], "masks": arrays["masks"][env.index]}, facts["envs"][env.index])


def fill(array, saved):
    """Copy ``saved`` into ``array``. Raises ``CheckpointError`` on every rank alike if the shapes differ."""
    if array.shape != saved.shape:
        error = CheckpointError(f"the checkpoint has arrays of another shape: {saved.shape}, not {array.shape}")
        error.agreed = True
        raise error
    array[...] = saved


def _identity(config):
    """What makes two runs the same; how envs are spread over ranks does not."""
    identity = config.identity()
    del identity["envs_per_rank"]
    return identity
