"""The run in a checkpoint, checked: version, settings, parameters."""

import functools
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from pg_mpi.config.command_line import flag
from pg_mpi.config.errors import CheckpointError, UsageError, malformed
from pg_mpi.config.settings import TrainConfig, from_identity
from pg_mpi.env import registry
from pg_mpi.env.interface import EnvSpec
from pg_mpi.files.checkpoint_file import Arrays
from pg_mpi.policy.interface import Policy
from pg_mpi.run.counters import count

FORMAT = 4  # one file
WITH_PARTS = 5  # see ``env_states``
Saved = tuple[Arrays, dict[str, Any]]  # arrays and facts of a checkpoint


#: Context that raises ``CheckpointError`` for malformed checkpoint data.
checking = functools.partial(malformed, "the checkpoint does not hold a valid run", kind=CheckpointError)


def env_spec_of(config: TrainConfig, arrays: Arrays, facts: dict[str, Any]) -> EnvSpec:
    """The specification of the saved run's environment.

    Raises ``CheckpointError``, also if the first layer alone needs more parameters than were saved.
    """
    with checking():
        env_spec = registry.restored(config.env_id, arrays, facts)
        there, inputs = arrays["theta"].size, env_spec.make_encoder(config).size
        least = config.hidden * inputs // 2  # with ``difference`` two inputs share weights
        if config.policy == "usual" and least > there:
            raise ValueError(f"{there} parameters are too few for {config.hidden} hidden units on {inputs} inputs")
        return env_spec


def config_of(path: str, facts: Any) -> TrainConfig:
    """The settings of the saved run. Raises ``CheckpointError`` for a file of another version."""
    found = facts.get("format") if isinstance(facts, dict) else None
    if found in (FORMAT, WITH_PARTS):
        with checking():
            return from_identity(facts["identity"])
    earlier = type(found) is int and 0 < found < FORMAT
    version = "belongs to an earlier version of pg_mpi" if earlier else "is not a checkpoint of this version of pg_mpi"
    raise CheckpointError(f"{path} {version}: use the version that wrote it, or start a new run in another --run-dir")


def steps_of(facts: dict[str, Any]) -> int:
    """The agent steps of the saved run. Raises ``CheckpointError``."""
    with checking():
        return count(facts["counters"]["env_steps"])


def check_fits(path: str, facts: dict[str, Any], config: TrainConfig, ranks: int) -> int:
    """The envs per rank with which this run resumes from a checkpoint.

    Raises ``UsageError`` if the checkpoint has other settings, or its envs do not divide.
    """
    saved, ours = identity(config_of(path, facts)), identity(config)
    with checking():
        envs = count(facts["parts"]["envs"]) if "parts" in facts else len(facts["envs"])
    names = sorted(name for name in ours if saved[name] != ours[name])
    if names:
        listed = "; ".join(f"{flag(name)} {saved[name]} there, {ours[name]} here" for name in names)
        other = "give another --run-dir" if Path(path).is_relative_to(config.folder) else "leave --resume out"
        raise UsageError(
            f"{path} belongs to a run with other settings ({listed}): give the same settings to resume, or {other}"
        )
    if not envs or envs % ranks:
        raise UsageError(f"{path} holds {envs} envs, which {ranks} ranks cannot share equally: use a divisor of {envs}")
    return envs // ranks


def fill_policy(policy: Policy, arrays: Arrays) -> None:
    """Restore a policy from a checkpoint. Raises ``CheckpointError`` on every rank alike."""
    with checking(agreed=True):
        fill(policy.theta, arrays["theta"])
        if policy.norm:
            fill(policy.norm.state, arrays["running_norm"])
            policy.norm.refresh()


def fill(array: NDArray[Any], saved: NDArray[Any]) -> None:
    """Copy ``saved`` into ``array``. Raises ValueError if shapes or kinds differ."""
    if array.shape != saved.shape or array.dtype.kind != saved.dtype.kind:
        there, here = (f"{a.dtype} {a.shape}" for a in (saved, array))
        raise ValueError(f"arrays of another shape or kind: {there}, not {here}")
    array[...] = saved


def identity(config: TrainConfig) -> dict[str, Any]:
    """The settings that must match on resume. The number of envs per rank may differ."""
    return {name: value for name, value in config.identity().items() if name != "envs_per_rank"}
