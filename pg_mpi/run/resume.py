"""Start of a run: new, from its own folder, or from another run. Rank 0 only.

All checks run before the folder of a new run is made.
"""

import dataclasses
import os
import sys
from collections.abc import Collection
from typing import Any, cast

import numpy as np

from pg_mpi.config.errors import CheckpointError, RunError, UsageError, system_faults
from pg_mpi.config.settings import TrainConfig
from pg_mpi.env import registry
from pg_mpi.env.interface import EnvSpec
from pg_mpi.files import checkpoint_file
from pg_mpi.files.checkpoint_file import Arrays
from pg_mpi.files.metrics_file import TensorBoard
from pg_mpi.files.run_folder import RunFolder
from pg_mpi.learning.self_imitation.replay_buffer import SIZE, TRANSITION
from pg_mpi.run import factory, run_state, saved_run


@dataclasses.dataclass(frozen=True)
class Start:
    """What a run starts from.

    Attributes:
        config: the settings, with the actual number of envs per rank.
        folder: the run folder, locked.
        env_spec: the specification, such as ``AtariSpec``.
        path: of the checkpoint to resume from, or None.
        saved: its arrays and facts. They stay on rank 0, where they are loaded.
        replay: replay states of the ranks of that run, see ``run_state.take_replay``; likewise.
    """

    config: TrainConfig
    folder: RunFolder
    env_spec: EnvSpec
    path: str | None = None
    saved: saved_run.Saved | None = None
    replay: list[Arrays] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "saved": None, "replay": None}


def find_start(config: TrainConfig, given: Collection[str], ranks: int) -> Start:
    """Check the settings, lock the folder and load the checkpoint to resume from. Raises ``UsageError``.

    ``given``: the names of the settings on the command line.
    """
    registry.check(config)
    if config.policy != "usual":
        factory.own_policy(config)
    if config.track:
        TensorBoard.check()
    folder = RunFolder(config.folder)
    own = checkpoint_file.candidates(folder.path)
    source = None if config.resume in ("auto", "never") else config.resume
    if own:
        _check_own(config, source, own)
        folder.open()
        source = folder.path
    elif source and not checkpoint_file.candidates(source):
        raise UsageError(f"--resume {source}: no checkpoint is there; give auto, never, a run folder or a file")
    if not source:
        check_settings(config, ranks, given)
        _check_progress(folder, config, 0)
        env_spec = registry.learn(config)
        factory.try_out(config, env_spec)
        if not _open_new(folder):
            return find_start(config, given, ranks)
        return Start(config, folder, env_spec)
    try:
        path, arrays, facts = cast(tuple[str, Arrays, dict[str, Any]], checkpoint_file.load_newest(source, warn))
    except CheckpointError as error:
        raise UsageError(f"{error}: give --resume PATH of an intact one and a new --run-dir") from None
    envs = saved_run.check_fits(path, facts, config, ranks)
    if "envs_per_rank" in given and config.envs_per_rank != envs:
        asked = config.envs_per_rank
        raise UsageError(f"{path} has {envs} envs for each of {ranks} ranks, not {asked}: leave --envs-per-rank out")
    config = dataclasses.replace(config, envs_per_rank=envs)
    check_settings(config, ranks, given)
    _check_progress(folder, config, saved_run.steps_of(facts))
    env_spec = saved_run.env_spec_of(arrays, facts)
    saved_run.check_size(config, env_spec, arrays)
    factory.try_out(config, env_spec)
    if own:
        checkpoint_file.set_aside(folder.path, path)
    elif not _open_new(folder):
        return find_start(config, given, ranks)
    replay = run_state.take_replay(arrays, facts)
    return Start(config, folder, env_spec, path, (arrays, facts), replay)


def check_settings(config: TrainConfig, ranks: int, given: Collection[str] = ()) -> None:
    """Refuse settings that conflict on ``ranks`` ranks, or whose checkpoints would be too large to load."""
    config.check(ranks, given)
    most = (checkpoint_file.LARGEST - (1 << 29)) // (SIZE * TRANSITION)  # the rest is for the other arrays
    if config.replay and ranks > most:
        raise UsageError(f"--replay fits into a checkpoint on at most {most} ranks, not {ranks}: leave it out")


def _open_new(folder: RunFolder) -> bool:
    """Make and lock the folder of a new run; False, and unlocked, if another trainer has saved there meanwhile."""
    folder.open()
    if not checkpoint_file.candidates(folder.path):
        return True
    folder.unlock()
    return False


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


def _check_progress(folder: RunFolder, config: TrainConfig, env_steps: int) -> None:
    """Refuse repeated starts without a new checkpoint, which a batch system would continue endlessly."""
    idle = folder.idle_starts(env_steps)
    if config.idle_starts and idle >= config.idle_starts:
        raise UsageError(
            f"the last {idle} starts of {folder.path} saved nothing after {env_steps:,} steps: see their output for "
            "the reason (a walltime shorter than an update?), then give --idle-starts 0 once"
        )


def save_checkpoint(
    folder: RunFolder, env_steps: int, content: tuple[Arrays, dict[str, Any]], config: TrainConfig
) -> None:
    """Write ``content``, (arrays, facts), as the folder's checkpoint after ``env_steps``. Raises ``RunError``."""
    path = checkpoint_file.path_of(folder.checkpoints, env_steps)
    arrays, _ = content
    for name in arrays.keys() & {"theta", "optimizer", "running_norm"}:
        if not np.isfinite(arrays[name]).all():
            raise RunError(
                f"after {env_steps:,} steps the {name} is not finite and is not saved: resume from "
                f"{_newest(folder)}; if it happens again, lower --learning-rate in a new --run-dir"
            )
    with system_faults(
        f"the checkpoint {path} cannot be written",
        f"fix that and run the same command again to resume from {_newest(folder)}",
    ):
        checkpoint_file.save(path, *content, keep=config.keep_checkpoints)


def _newest(folder: RunFolder) -> str:
    return next(iter(checkpoint_file.candidates(folder.path)), "the beginning (there is no checkpoint)")


def warn(line: str) -> None:
    """Print a warning line on standard error."""
    print(f"pg_mpi: warning: {line}", file=sys.stderr, flush=True)
