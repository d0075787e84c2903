"""When a checkpoint is due, and its writing.

It is one file by rank 0, or first a part by the first rank of each group: see ``env_states``. ``Trainer`` also saves
before an evaluation and when the process stops.
"""

import contextlib
import dataclasses
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from pg_mpi.config.errors import RunError, SystemFault, system_faults, warn
from pg_mpi.config.settings import TrainConfig
from pg_mpi.files import checkpoint_file, checkpoint_folder
from pg_mpi.files.run_folder import RunFolder
from pg_mpi.mpi.interface import Collectives
from pg_mpi.run import evaluations
from pg_mpi.run.env_states import Layout, group_size
from pg_mpi.run.saved_run import WITH_PARTS, Saved


def choose_group(world: Collectives, config: TrainConfig, hosts: int, folder: RunFolder) -> int:
    """The number of ranks whose states one rank writes; all, if some hosts do not see the run folder.

    Collective: every rank must call this, after ``config.json`` is written.
    """
    group = group_size(config, world.size, hosts)
    if group >= world.size:
        return world.size
    starts: list[dict[str, Any]] = world.on_root(_starts, folder)
    unseen = world.rank % group == 0 and (not starts or _starts(folder) != starts)
    if not world.any(unseen)[0]:
        return group
    if world.rank == 0:
        warn(
            f"not all hosts see {folder.path}: rank 0 writes the checkpoints for all; a shared folder divides the work"
        )
    return world.size


def _starts(folder: RunFolder) -> list[dict[str, Any]]:
    """The starts in ``config.json``; none if it cannot be read."""
    with contextlib.suppress(SystemFault):
        return folder.starts()
    return []


class Saving:
    """The checkpoints of a run since its start: when one is due, and its writing.

    Args:
        group: of ``choose_group``.
        clock: as of ``World``.
        sync: makes the metrics durable. Called on rank 0, before each checkpoint.

    Attributes:
        unsaved: updates since the last checkpoint; the trainer counts them.
        has_saved: whether this start has written a checkpoint.
    """

    def __init__(
        self, folder: RunFolder, config: TrainConfig, group: int, clock: Callable[[], float], sync: Callable[[], None]
    ) -> None:
        self._folder, self._group, self._clock, self._sync = folder, group, clock, sync
        self._every, self._keep = config.checkpoint_every, config.keep_checkpoints
        self.unsaved, self.has_saved, self._saved_at = 0, False, clock()

    def is_due(self, world: Collectives) -> bool:
        """Whether a checkpoint is due, by updates or by rank 0's clock; alike on all ranks.

        Collective: every rank must call this.
        """
        if isinstance(self._every, int):
            return self.unsaved >= self._every
        late = world.rank == 0 and self._clock() - self._saved_at >= self._every
        return self.unsaved > 0 and world.any(late)[0]

    def agree(self, world: Collectives) -> None:
        """After a lost rank, count what is unsaved on any rank as unsaved.

        Collective: every rank must call this.
        """
        self.unsaved, new = map(int, world.max_(np.array([self.unsaved, not self.has_saved])))
        self.has_saved = not new

    def layout(self, world: Collectives, envs: int) -> Layout:
        """The parts of a checkpoint of ``envs`` envs in all."""
        return Layout(envs, world.size, min(self._group, world.size))

    def write(self, world: Collectives, env_steps: int, whole: Saved, states: Saved | None, layout: Layout) -> None:
        """Write the checkpoint after ``env_steps``. Collective: every rank must call this.

        Args:
            whole: of ``run_state.collect``.
            states: of ``env_states.gather``, on the first rank of each group.

        Raises ``RunError`` or ``SystemFault``, alike on all ranks.
        """
        path = checkpoint_folder.path_of(self._folder.checkpoints, env_steps)
        arrays, facts = whole
        world.on_root(self._prepare, path, arrays, env_steps, layout)
        if layout.group < layout.ranks:
            world.on_every(self._write_part, path, world.rank, states, layout)
            facts = facts | {"format": WITH_PARTS, "parts": dataclasses.asdict(layout)}
        elif states:
            arrays, facts = arrays | states[0], facts | states[1]
        world.on_root(self._commit, path, arrays, facts)
        self.unsaved, self.has_saved, self._saved_at = 0, True, self._clock()

    def _prepare(self, path: str, arrays: dict[str, Any], env_steps: int, layout: Layout) -> None:
        self._sync()
        for name in arrays.keys() & {"theta", "optimizer", "running_norm"}:
            if not np.isfinite(arrays[name]).all():
                raise RunError(
                    f"after {env_steps:,} steps the {name} is not finite and is not saved: resume from "
                    f"{self._newest()}; if it happens again, lower --learning-rate in a new --run-dir"
                )
        if layout.group < layout.ranks:
            with self._faults(path):
                checkpoint_folder.make_parts_folder(path)

    def _write_part(self, path: str, rank: int, states: Saved | None, layout: Layout) -> None:
        if states:
            part = layout.part(path, rank // layout.group)
            with self._faults(part):
                checkpoint_file.save(part, *states)

    def _commit(self, path: str, arrays: dict[str, Any], facts: dict[str, Any]) -> None:
        with self._faults(path), self._folder.replacing():
            checkpoint_folder.save(path, arrays, facts, self._keep, spared=evaluations.best(self._folder.path))

    def _faults(self, path: str) -> AbstractContextManager[None]:
        return system_faults(
            f"the checkpoint {path} cannot be written",
            f"fix that and run the same command again to resume from {self._newest()}",
        )

    def _newest(self) -> str:
        newest = checkpoint_folder.candidates(self._folder.path)
        return next(iter(newest), "the beginning (there is no checkpoint)")
