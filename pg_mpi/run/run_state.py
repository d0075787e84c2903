"""Conversion of a run to a checkpoint's arrays and facts, and back."""

import pickle
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from pg_mpi.config.settings import TrainConfig
from pg_mpi.env.interface import EnvSpec
from pg_mpi.files.checkpoint_file import Arrays
from pg_mpi.learning.gradient_source import State
from pg_mpi.learning.learner import Learner
from pg_mpi.learning.rollout import Env
from pg_mpi.learning.self_imitation.replay_buffer import STATE
from pg_mpi.mpi.interface import Collectives
from pg_mpi.mpi.world import World
from pg_mpi.run.counters import Counters
from pg_mpi.run.saved_run import FORMAT, Saved, checking, fill, fill_policy, identity


def collect(
    world: Collectives,
    config: TrainConfig,
    env_spec: EnvSpec,
    learner: Learner,
    counters: Counters,
    envs: Iterable[Env],
) -> Saved | None:
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
    blocks = world.gather_blocks(_pack({env.index: env.state() for env in envs}))
    replay = _gather_replay(world, learner.replay_state())
    if blocks is None:
        return None
    by_index = {index: state for block in blocks for index, state in _unpack(block).items()}
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
        "identity": identity(config),
        "counters": counters.state(),
        "learner": learner.counters(),
        "envs": [env_facts for _, env_facts in states],
    }
    if learner.policy.norm:
        arrays["running_norm"] = learner.policy.norm.state
    spec_arrays, spec_facts = env_spec.saved()
    arrays, facts = arrays | spec_arrays, facts | spec_facts
    if replay:
        facts["replay"], by_name = replay
        for name, of_ranks in by_name.items():
            arrays |= {f"replay_{rank}_{name}": array for rank, array in enumerate(of_ranks)}
    return arrays, facts


def deal(
    world: Collectives, saved: Saved | None, learner: Learner, counters: Counters, envs: Iterable[Env]
) -> list[dict[str, Any]]:
    """Restore a run from what rank 0 has loaded: weights and counters on all ranks, and each rank's own envs.

    Collective: every rank must call this. ``World()`` restores envs of any index from ``saved`` alone.

    Returns:
        replay: facts of the replay state of each rank of the saved run, for ``deal_replay``.
    """
    blocks: list[NDArray[np.uint8]] = []

    def prepare() -> tuple[Any, Any, list[dict[str, Any]]]:
        arrays, facts = cast(Saved, saved)
        with checking():
            fill_policy(learner.policy, arrays)
            fill(learner.optimizer.state, arrays["optimizer"])
            blocks.extend(_blocks(arrays, facts, world.size))
            return facts["learner"], facts["counters"], facts.get("replay", [])

    replay: list[dict[str, Any]]
    learner_facts, counter_facts, replay = world.on_root(prepare)
    world.broadcast_(learner.optimizer.state)
    with checking(agreed=True):
        learner.restore(learner_facts)
        counters.restore(counter_facts)
    mine = _unpack(world.deal_blocks(blocks))
    with checking():
        for env in envs:
            env.restore(*mine[env.index])
    return replay


def _blocks(arrays: Arrays, facts: dict[str, Any], ranks: int) -> Iterator[NDArray[np.uint8]]:
    """The packed env states of each of ``ranks`` ranks."""
    emulators, encoders = (
        np.split(arrays[f"{name}s"], np.cumsum(arrays[f"{name}_sizes"])[:-1]) for name in ("emulator", "encoder")
    )
    parts = [{"emulator": emulator, "encoder": encoder} for emulator, encoder in zip(emulators, encoders, strict=True)]
    states = list(zip(parts, facts["envs"], strict=True))
    each = len(states) // ranks
    for first in range(0, len(states), each):
        yield _pack({index: states[index] for index in range(first, first + each)})


def _pack(states: dict[int, Any]) -> NDArray[np.uint8]:
    """Env states by index as bytes, to send to another rank: uint8 (n,)."""
    return np.frombuffer(pickle.dumps(states), np.uint8)


def _unpack(block: NDArray[np.uint8]) -> dict[int, Any]:
    states: dict[int, Any] = pickle.loads(block.tobytes())
    return states


def _gather_replay(world: Collectives, state: State | None) -> tuple[Any, dict[str, Any]] | None:
    """Gather the replay states of all ranks on rank 0: (facts, arrays by name); None without. Collective."""
    if state is None:
        return None
    arrays, facts = state
    blocks = {name: world.gather_blocks(array) for name, array in arrays.items()}
    return world.gather(facts), blocks


def take_replay(arrays: Arrays, facts: dict[str, Any]) -> list[Arrays]:
    """Remove the replay states from a checkpoint's arrays, because they are large: a list of dicts by rank."""
    with checking():
        states: list[Arrays] = []
        for rank in range(len(facts.get("replay", []))):
            states.append({name: arrays.pop(f"replay_{rank}_{name}") for name in STATE})
            if any(array.ndim != 1 for array in states[-1].values()):
                raise ValueError("replay arrays must be one-dimensional")
        return states


def deal_replay(world: World, states: list[Arrays] | None, facts: list[dict[str, Any]], learner: Learner) -> None:
    """Distribute the replay states of the saved run over the ranks. Collective.

    Args:
        states: of ``take_replay``, on rank 0.
        facts: of ``deal``.
    """
    mine: list[tuple[int, dict[str, Any], Mapping[str, Any]]] = []
    for rank, rank_facts in enumerate(facts):
        arrays = {name: world.hand(states[rank][name] if states else None, rank % world.size) for name in STATE}
        if rank % world.size == world.rank:
            mine.append((rank, arrays, rank_facts))
    with checking():
        learner.restore_replay(mine)
