"""A run ↔ a checkpoint: what of every rank is saved, and how it is dealt out again."""

import numpy as np

from pg_mpi.build import Knowledge
from pg_mpi.config import TrainConfig
from pg_mpi.errors import CheckpointError, UsageError

FORMAT = 1


def collect(world, config, knowledge, policy, learner, tally, envs):
    """The arrays and facts of the whole run on rank 0; None elsewhere. Collective: every rank must call this.

    Envs are saved in the order of their index, with all that belongs to them, so that any number of ranks
    that divides their number can take them up again.
    """
    parts = world.gather([env.state() for env in envs])
    if parts is None:
        return None
    states = [state for part in parts for state in part]
    emulators = [arrays["emulator"] for arrays, _ in states]
    arrays = {
        "theta": policy.theta,
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
        return TrainConfig(**facts["identity"])
    except (KeyError, TypeError):
        raise CheckpointError(f"{path} is not a checkpoint of this version of pg_mpi") from None


def check_fits(path, facts, config, ranks):
    """The envs per rank with which this run goes on from a checkpoint.

    Raises ``UsageError`` if the checkpoint is of a run with other settings, or its envs do not divide.
    """
    try:
        saved, envs = facts["identity"], len(facts["envs"])
        if facts["format"] != FORMAT:
            raise KeyError
    except (KeyError, TypeError):
        raise CheckpointError(f"{path} is not a checkpoint of this version of pg_mpi") from None
    ours = _identity(config)
    names = sorted(name for name in {*saved, *ours} if saved.get(name) != ours.get(name))
    if names:
        listed = ", ".join(f"{name} {saved.get(name)} there, {ours.get(name)} here" for name in names)
        raise UsageError(
            f"{path} belongs to a run with other settings ({listed}): give the same settings to go on, "
            "or another --run-dir"
        )
    if envs % ranks:
        raise UsageError(f"{path} holds {envs} envs, which {ranks} ranks cannot share equally: use a divisor of {envs}")
    return envs // ranks


def apply(arrays, facts, policy, learner, tally, envs):
    """Put a saved run back: all ranks the same weights and counters, and each its own envs. Not collective."""
    if arrays["theta"].shape != policy.theta.shape or arrays["optimizer"].shape != learner.optimizer.state.shape:
        raise CheckpointError("the checkpoint's weights do not have this policy's shape")
    policy.theta[...] = arrays["theta"]
    learner.optimizer.state[...] = arrays["optimizer"]
    learner.restore(facts["learner"])
    tally.restore(facts["tally"])
    cuts = np.cumsum(arrays["emulator_sizes"])
    emulators = np.split(arrays["emulators"], cuts[:-1])
    for env in envs:
        env.restore({"emulator": emulators[env.index], "masks": arrays["masks"][env.index]}, facts["envs"][env.index])


def _identity(config):
    """What makes two runs the same; how envs are spread over ranks does not."""
    identity = config.identity()
    del identity["envs_per_rank"]
    return identity
