"""Start of a run: new, from its own folder, or from another run. Rank 0 only.

All checks but those of a checkpoint's parts, which their ranks read, run before the folder of a new run is made.
"""

import dataclasses
import os
import sys
from collections.abc import Collection
from typing import Any, cast

from pg_mpi.config.errors import CheckpointError, UsageError
from pg_mpi.config.parsers import check_extra
from pg_mpi.config.settings import TrainConfig
from pg_mpi.env import registry
from pg_mpi.env.interface import EnvSpec
from pg_mpi.files import checkpoint_folder
from pg_mpi.files.run_folder import RunFolder
from pg_mpi.run import factory, saved_run
from pg_mpi.run.env_states import Layout


@dataclasses.dataclass(frozen=True)
class Start:
    """What a run starts from.

    Attributes:
        config: the settings, with the actual number of envs per rank.
        folder: the run folder, locked.
        env_spec: the specification, such as ``AtariSpec``.
        path: of the checkpoint to resume from, or None.
        saved: its arrays and facts. They stay on rank 0, where they are loaded.
        layout: of its parts; None if it is one file.
    """

    config: TrainConfig
    folder: RunFolder
    env_spec: EnvSpec
    path: str | None = None
    saved: saved_run.Saved | None = None
    layout: Layout | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "saved": None}


def find_start(config: TrainConfig, given: Collection[str], ranks: int, damaged: Collection[str] = ()) -> Start:
    """Check the settings, lock the folder and load the checkpoint to resume from. Raises ``UsageError``.

    Args:
        given: the names of the settings on the command line.
        damaged: checkpoints to skip.
    """
    registry.check(config)
    if config.policy != "usual":
        factory.own_policy(config)
    if config.track:
        check_extra("tensorboardX", "tensorboard", "--track tensorboard")
    folder = RunFolder(config.folder)
    own = checkpoint_folder.candidates(folder.path)
    source = None if config.resume in ("auto", "never") else config.resume
    if own:
        _check_own(config, source, own)
        folder.open()
        source = folder.path
    elif source and not checkpoint_folder.candidates(source):
        raise UsageError(f"--resume {source}: no checkpoint is there; give auto, never, a run folder or a file")
    path, layout, saved = _load_newest(source, list(damaged)) if source else (None, None, None)
    if path and saved:
        envs, asked = saved_run.check_fits(path, saved[1], config, ranks), config.envs_per_rank
        if "envs_per_rank" in given and envs != asked:
            wrong = f"{path} has {envs} envs for each of {ranks} ranks, not {asked}"
            raise UsageError(f"{wrong}: leave --envs-per-rank out")
        config = dataclasses.replace(config, envs_per_rank=envs)
    config.check(ranks, given)
    _check_progress(folder, config, saved_run.steps_of(saved[1]) if saved else 0)
    env_spec = saved_run.env_spec_of(*saved) if saved else registry.learn(config)
    if saved:
        saved_run.check_size(config, env_spec, saved[0])
    factory.try_out(config, env_spec)
    if own:
        checkpoint_folder.set_aside(folder.path, str(path))
    else:
        folder.open()
        if checkpoint_folder.candidates(folder.path):  # another trainer has saved there meanwhile
            folder.unlock()
            return find_start(config, given, ranks, damaged)
    return Start(config, folder, env_spec, path, saved, layout)


def _load_newest(source: str, damaged: list[str]) -> tuple[str, Layout | None, saved_run.Saved]:
    """The newest checkpoint of ``source`` whose parts are all there: path, layout, (arrays, facts)."""
    while True:
        try:
            path, arrays, facts = cast(checkpoint_folder.Loaded, checkpoint_folder.load_newest(source, warn, damaged))
            layout = Layout.of(facts)
            missing = layout and layout.missing(path)
        except CheckpointError as error:
            raise UsageError(f"{error}: give --resume PATH of an intact one and a new --run-dir") from None
        if not missing:
            return path, layout, (arrays, facts)
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


def _check_progress(folder: RunFolder, config: TrainConfig, env_steps: int) -> None:
    """Refuse repeated starts without a new checkpoint, which a batch system would continue endlessly."""
    idle = folder.idle_starts(env_steps)
    if config.idle_starts and idle >= config.idle_starts:
        raise UsageError(
            f"the last {idle} starts of {folder.path} saved nothing after {env_steps:,} steps: see their output for "
            "the reason (a walltime shorter than an update?), then give --idle-starts 0 once"
        )


def warn(line: str) -> None:
    """Print a warning line on standard error."""
    print(f"pg_mpi: warning: {line}", file=sys.stderr, flush=True)
