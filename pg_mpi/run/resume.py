"""Start of a run: new, from its own folder, or from another run.

Rank 0 checks the settings and loads the checkpoint; the first rank of each group reads its part of the envs' states.
All checks but those of the saved arrays and states run before the folder of a new run is made.
"""

import dataclasses
import os
from collections.abc import Collection
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from pg_mpi.config.errors import CheckpointError, UsageError, warn
from pg_mpi.config.parsers import check_extra
from pg_mpi.config.settings import TrainConfig
from pg_mpi.env import registry
from pg_mpi.env.interface import EnvSpec
from pg_mpi.files import checkpoint_folder
from pg_mpi.files.run_folder import RunFolder
from pg_mpi.mpi.interface import Collectives
from pg_mpi.run import factory, saved_run
from pg_mpi.run.env_states import GroupStates, Layout, decode, group_size, pack, portion, read_parts
from pg_mpi.run.saved_run import checking


@dataclasses.dataclass(frozen=True)
class Start:
    """What a run starts from.

    Attributes:
        config: the settings, with the actual number of envs per rank.
        env_spec: the specification, such as ``AtariSpec``.
        path: of the checkpoint to resume from, or None.
        saved: its arrays and facts. They stay on rank 0, where they are loaded.
        layout: of its parts; None if it is one file.
    """

    config: TrainConfig
    env_spec: EnvSpec
    path: str | None = None
    saved: saved_run.Saved | None = None
    layout: Layout | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "saved": None}


def begin(
    world: Collectives, folder: RunFolder, config: TrainConfig, given: Collection[str], hosts: int
) -> tuple[Start, GroupStates | None]:
    """Find what the run starts from, and read the states of each group, None without a checkpoint.

    A checkpoint with a damaged part is skipped as one with a damaged file. Collective: every rank must call this.
    Raises ``UsageError``, ``CheckpointError``, ``SystemFault``, alike on all ranks.

    Args:
        folder: the run folder. Rank 0 locks it; if this raises, it may stay locked.
        given: the names of the settings on the command line.
        hosts: the number of hosts.
    """
    damaged: list[str] = []
    while True:
        start: Start | None = world.on_root(find_start, folder, config, given, world.size, damaged, asleep=True)
        if start is None:
            continue  # another trainer has saved in the folder meanwhile: resume from there, or be refused
        if start.path is None:
            return start, None
        try:
            return start, world.on_every(_read, start, world, hosts)
        except CheckpointError as error:
            if start.layout is None:
                raise
            folder.unlock()
            damaged.append(start.path)
            world.on_root(warn, str(error))


def _read(start: Start, world: Collectives, hosts: int) -> GroupStates:
    """The states for this rank's group, if it is the first of the group."""
    layout, ranks = start.layout, world.size
    group = group_size(start.config, ranks, hosts) if layout else ranks
    if world.rank % group:
        return GroupStates(group, [])
    envs, stop = ranks * start.config.envs_per_rank, min(world.rank + group, ranks)
    if layout:
        buffers = portion(layout.ranks, ranks, world.rank, stop) if start.config.replay else range(0)
        states, replays = read_parts(str(start.path), layout, portion(envs, ranks, world.rank, stop), buffers)
    else:
        states, replays = decode(*cast(saved_run.Saved, start.saved))

    def block(rank: int) -> NDArray[np.uint8]:
        mine = portion(layout.ranks if layout else len(replays), ranks, rank, rank + 1)
        with checking():
            own = {index: states[index] for index in portion(envs, ranks, rank, rank + 1)}
        return pack(own, {number: replay for number, replay in replays.items() if number in mine})

    return GroupStates(group, [block(rank) for rank in range(world.rank, stop)])


def _check_code(config: TrainConfig) -> None:
    """Refuse an environment, features, a policy or a tracker that cannot be imported."""
    registry.check(config)
    if config.policy != "usual":
        factory.own_policy(config)
    if config.track:
        check_extra("tensorboardX", "tensorboard", "--track tensorboard")


def find_start(
    folder: RunFolder, config: TrainConfig, given: Collection[str], ranks: int, damaged: Collection[str]
) -> Start | None:
    """Check the settings, lock the folder, and return a start from its checkpoints, from ``--resume``, or a new one.

    None, and the folder unlocked, if another trainer has saved there meanwhile. Rank 0 only. Raises ``UsageError``
    or ``SystemFault``.

    Args:
        given: the names of the settings on the command line.
        damaged: checkpoints to skip.
    """
    _check_code(config)
    source = None if config.resume in ("auto", "never") else config.resume
    own = checkpoint_folder.candidates(folder.path)
    if own:
        _check_own(config, source, own)
        folder.open()
        source = folder.path
    elif source and not checkpoint_folder.candidates(source):
        raise UsageError(f"--resume {source}: no checkpoint is there; give auto, never, a run folder or a file")
    if source is None:
        config.check(ranks, given)
        start = Start(config, registry.make_spec(config))
        factory.try_out(config, start.env_spec)
    else:
        start = _resumed(source, config, given, ranks, damaged)
    if not own:
        folder.open()
    if checkpoint_folder.candidates(folder.path) == own:
        folder.claim()
        if checkpoint_folder.candidates(folder.path) == own:
            if own:
                checkpoint_folder.set_aside(folder.path, cast(str, start.path))
            return start
    folder.unlock()
    return None


def _resumed(source: str, config: TrainConfig, given: Collection[str], ranks: int, damaged: Collection[str]) -> Start:
    """A start from the newest good checkpoint of ``source``, if the settings fit."""
    try:
        path, arrays, facts = _load_newest(source, list(damaged))
    except CheckpointError as error:
        raise UsageError(f"{error}: give --resume PATH of an intact one and a new --run-dir") from None
    envs = saved_run.check_fits(path, facts, config, ranks)
    if "envs_per_rank" in given and config.envs_per_rank != envs:
        asked = config.envs_per_rank
        raise UsageError(f"{path} has {envs} envs for each of {ranks} ranks, not {asked}: leave --envs-per-rank out")
    config = dataclasses.replace(config, envs_per_rank=envs)
    config.check(ranks, given)
    env_spec = saved_run.env_spec_of(config, arrays, facts)
    factory.try_out(config, env_spec)
    return Start(config, env_spec, path, (arrays, facts), Layout.of(facts))


def _load_newest(source: str, damaged: list[str]) -> checkpoint_folder.Loaded:
    """The newest checkpoint of ``source`` whose parts are all there."""
    while True:
        path, arrays, facts = cast(checkpoint_folder.Loaded, checkpoint_folder.load_newest(source, warn, damaged))
        layout = Layout.of(facts)
        missing = layout and layout.missing(path)
        if not missing:
            return path, arrays, facts
        warn(f"{path} is not a usable checkpoint: {missing} is missing")
        damaged.append(path)


def _check_own(config: TrainConfig, source: str | None, own: list[str]) -> None:
    """Refuse a ``--resume`` that conflicts with the folder's own checkpoints."""
    if config.resume == "never":
        raise UsageError(f"{config.folder} holds a run and --resume never would lose it: give another --run-dir")
    if source is None:
        return
    if os.path.realpath(source) in map(os.path.realpath, own[1:]):
        raise UsageError(f"--resume {source}: {config.folder} has newer checkpoints; resume from it in a new --run-dir")
    if os.path.realpath(source) not in map(os.path.realpath, (config.folder, own[0])):
        warn(f"{config.folder} has a checkpoint of its own: resuming from it, not from {source}")
