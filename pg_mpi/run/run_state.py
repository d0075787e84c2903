"""Conversion of a run to a checkpoint's arrays and facts, and back."""

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pg_mpi.config.errors import CheckpointError, UsageError, one_line
from pg_mpi.config.settings import TrainConfig, from_identity
from pg_mpi.env import registry
from pg_mpi.env.interface import EnvSpec
from pg_mpi.files.checkpoint_file import Arrays
from pg_mpi.learning.gradient_source import State
from pg_mpi.learning.learner import Learner
from pg_mpi.learning.rollout import Env
from pg_mpi.learning.self_imitation.replay_buffer import STATE
from pg_mpi.mpi.world import World
from pg_mpi.policy.interface import Policy
from pg_mpi.run.counters import Counters

FORMAT = 4


def collect(
    world: World, config: TrainConfig, env_spec: EnvSpec, learner: Learner, counters: Counters, envs: Iterable[Env]
) -> tuple[Arrays, dict[str, Any]] | None:
    """Collect the arrays and facts of the whole run on rank 0; None elsewhere. Collective: every rank must call this.

    Envs are saved in the order of their index, with all their state. Any number of ranks that divides their number can
    resume them. The arrays (P parameters, E envs, B backgrounds, C colour planes):

        theta          float32 (P,)          the policy's parameters
        optimizer      float32 (slots, P)    Adam: m and v; RMSProp: its cache
        emulators      uint8 (bytes,)        the emulator states of all envs, concatenated
        emulator_sizes int64 (E,)
        encoders       uint8 (bytes,)        the encoder states, likewise, with encoder_sizes
        running_norm   float64 (...)         statistics of observations and returns, see ``RunningNorm``
        backgrounds    uint8 (B, H, 160)     of an Atari game, and classes, uint8 (256,)
        replay_R_NAME                        replay state of rank R, with --replay: see ``ReplayBuffer.state``
    """
    parts = world.gather({env.index: env.state() for env in envs})
    replay = _gather_replay(world, learner.replay_state())
    if parts is None:
        return None
    by_index = {index: state for part in parts for index, state in part.items()}
    states = [by_index[index] for index in sorted(by_index)]
    emulators, encoders = ([arrays[name] for arrays, _ in states] for name in ("emulator", "encoder"))
    arrays = {
        "theta": learner.policy.theta,
        "optimizer": learner.optimizer.state,
        "emulators": np.concatenate(emulators),
        "emulator_sizes": np.array([len(state) for state in emulators]),
        "encoders": np.concatenate(encoders),
        "encoder_sizes": np.array([len(state) for state in encoders]),
    }
    facts = {
        "format": FORMAT,
        "identity": _identity(config),
        "counters": counters.state(),
        "learner": learner.counters(),
        "envs": [env_facts for _, env_facts in states],
    }
    if learner.policy.norm:
        arrays["running_norm"] = learner.policy.norm.state
    spec_arrays, spec_facts = env_spec.saved()
    arrays, facts = arrays | spec_arrays, facts | spec_facts
    if replay:
        facts["replay"], blocks = replay
        for name, of_ranks in blocks.items():
            arrays |= {f"replay_{rank}_{name}": array for rank, array in enumerate(of_ranks)}
    return arrays, facts


@contextlib.contextmanager
def _checking(agreed: bool = False) -> Iterator[None]:
    """Context that raises ``CheckpointError`` for malformed checkpoint data.

    ``agreed``: every rank reads the same data, and so raises the same error.
    """
    try:
        yield
    except UsageError:
        raise
    except Exception as error:  # malformed data can raise any type
        reason = one_line(error)
        refused = CheckpointError(f"the checkpoint does not hold a valid run ({type(error).__name__}: {reason})")
        refused.agreed = agreed
        raise refused from None


def env_spec_of(arrays: Arrays, facts: dict[str, Any]) -> EnvSpec:
    """The specification of the saved run's environment. Raises ``CheckpointError``."""
    with _checking():
        return registry.restored(facts["identity"]["env_id"], arrays, facts)


def config_of(path: str, facts: Any) -> TrainConfig:
    """The settings of the saved run. Raises ``CheckpointError`` for a file of another version."""
    found = facts.get("format") if isinstance(facts, dict) else None
    if found == FORMAT:
        with _checking():
            return from_identity(facts["identity"])
    earlier = type(found) is int and 0 < found < FORMAT
    version = "belongs to an earlier version of pg_mpi" if earlier else "is not a checkpoint of this version of pg_mpi"
    raise CheckpointError(f"{path} {version}: use the version that wrote it, or start a new run in another --run-dir")


def steps_of(facts: dict[str, Any]) -> int:
    """The agent steps of the saved run. Raises ``CheckpointError``."""
    with _checking():
        return int(facts["counters"]["env_steps"])


def check_fits(path: str, facts: dict[str, Any], config: TrainConfig, ranks: int) -> int:
    """The envs per rank with which this run resumes from a checkpoint.

    Raises ``UsageError`` if the checkpoint has other settings, or its envs do not divide.
    """
    saved, ours = _identity(config_of(path, facts)), _identity(config)
    with _checking():
        envs = len(facts["envs"])
        if not envs:
            raise ValueError("no envs")
    names = sorted(name for name in ours if saved[name] != ours[name])
    if names:
        listed = ", ".join(f"{name} {saved[name]} there, {ours[name]} here" for name in names)
        raise UsageError(
            f"{path} belongs to a run with other settings ({listed}): give the same settings to resume, "
            "or another --run-dir"
        )
    if envs % ranks:
        raise UsageError(f"{path} holds {envs} envs, which {ranks} ranks cannot share equally: use a divisor of {envs}")
    return envs // ranks


def apply(
    arrays: Arrays,
    facts: dict[str, Any],
    env_spec: EnvSpec,
    policy: Policy,
    learner: Learner,
    counters: Counters,
    envs: Iterable[Env],
) -> None:
    """Restore a saved run: weights and counters on all ranks, and each rank's envs. Not collective."""
    with _checking(agreed=True):
        fill_policy(policy, arrays)
        fill(learner.optimizer.state, arrays["optimizer"])
        learner.restore(facts["learner"])
        counters.restore(facts["counters"])
        emulators, encoders = (_split(arrays[f"{name}s"], arrays[f"{name}_sizes"]) for name in ("emulator", "encoder"))
    with _checking():
        for env in envs:
            parts = {"emulator": emulators[env.index], "encoder": encoders[env.index]}
            env.restore(parts, facts["envs"][env.index])


def _split(states: NDArray[Any], sizes: NDArray[Any]) -> list[NDArray[Any]]:
    """Split concatenated states by their sizes."""
    return np.split(states, np.cumsum(sizes)[:-1])


def _gather_replay(world: World, state: State | None) -> tuple[Any, dict[str, Any]] | None:
    """Gather the replay states of all ranks on rank 0: (facts, arrays by name); None without. Collective."""
    if state is None:
        return None
    arrays, facts = state
    blocks = {name: world.gather_blocks(array) for name, array in arrays.items()}
    return world.gather(facts), blocks


def take_replay(arrays: Arrays, facts: dict[str, Any]) -> list[Arrays]:
    """Remove the replay states from a checkpoint's arrays, because they are large: a list of dicts by rank."""
    with _checking():
        states: list[Arrays] = []
        for rank in range(len(facts.get("replay", []))):
            states.append({name: arrays.pop(f"replay_{rank}_{name}") for name in STATE})
            if any(array.ndim != 1 for array in states[-1].values()):
                raise ValueError("replay arrays must be one-dimensional")
        return states


def deal_replay(world: World, states: list[Arrays] | None, facts: dict[str, Any], learner: Learner) -> None:
    """Distribute the replay states of the saved run over the ranks. Collective.

    ``states``: of ``take_replay``, on rank 0.
    """
    mine = []
    for rank, rank_facts in enumerate(facts.get("replay", [])):
        arrays = {name: world.hand(states[rank][name] if states else None, rank % world.size) for name in STATE}
        if rank % world.size == world.rank:
            mine.append((rank, arrays, rank_facts))
    with _checking():
        learner.restore_replay(mine)


def check_size(config: TrainConfig, theta: NDArray[Any]) -> None:
    """Raise ``CheckpointError`` for settings that need far more parameters than were saved."""
    if config.policy == "usual" and config.hidden > theta.size:
        error = CheckpointError(f"the checkpoint has {theta.size} parameters, too few for {config.hidden} hidden units")
        error.agreed = True
        raise error


def fill_policy(policy: Policy, arrays: Arrays) -> None:
    """Restore a policy from a checkpoint. Raises ``CheckpointError`` on every rank alike."""
    with _checking(agreed=True):
        fill(policy.theta, arrays["theta"])
        if policy.norm:
            fill(policy.norm.state, arrays["running_norm"])
            policy.norm.refresh()


def fill(array: NDArray[Any], saved: NDArray[Any]) -> None:
    """Copy ``saved`` into ``array``. Raises ``CheckpointError`` on every rank alike if shapes or kinds differ."""
    if array.shape != saved.shape or array.dtype.kind != saved.dtype.kind:
        there, here = (f"{a.dtype} {a.shape}" for a in (saved, array))
        error = CheckpointError(f"the checkpoint has arrays of another shape or kind: {there}, not {here}")
        error.agreed = True
        raise error
    array[...] = saved


def _identity(config: TrainConfig) -> dict[str, Any]:
    """The settings that must match on resume. The number of envs per rank may differ."""
    identity = config.identity()
    del identity["envs_per_rank"]
    return identity
