"""The start of a run on all ranks: what rank 0 finds, and the states of the envs from the checkpoint."""

from collections.abc import Collection
from typing import cast

from pg_mpi.config.errors import CheckpointError, warn
from pg_mpi.config.settings import TrainConfig
from pg_mpi.mpi.interface import Collectives
from pg_mpi.run.env_states import Assignment, GroupStates, decode, group_size, read_parts
from pg_mpi.run.resume import Start, find_start
from pg_mpi.run.saved_run import Saved


def begin(
    world: Collectives, config: TrainConfig, given: Collection[str], hosts: int
) -> tuple[Start, GroupStates | None]:
    """Find what the run starts from, and read the states of each group, None without a checkpoint.

    A checkpoint with a damaged part is skipped as one with a damaged file. Collective: every rank must call this.
    Raises ``UsageError``, ``CheckpointError``, ``SystemFault``, alike on all ranks.

    Args:
        given: the names of the settings on the command line.
        hosts: the number of hosts.
    """
    damaged: list[str] = []
    while True:
        start: Start = world.on_root(find_start, config, given, world.size, damaged, asleep=True)
        if start.path is None:
            return start, None
        try:
            return start, world.on_every(_read, start, world, hosts)
        except CheckpointError as error:
            if start.layout is None:
                start.folder.unlock()
                raise
            damaged.append(start.path)
            world.on_root(_refuse, start, str(error))


def _read(start: Start, world: Collectives, hosts: int) -> GroupStates:
    """The states for this rank's group, if it is the first of the group."""
    layout, ranks = start.layout, world.size
    group = group_size(start.config, ranks, hosts) if layout else ranks
    if world.rank % group:
        return GroupStates(group, [])
    envs, stop = ranks * start.config.envs_per_rank, min(world.rank + group, ranks)
    if layout:
        assignment = Assignment(envs, layout.ranks, ranks)
        states, replays = read_parts(str(start.path), layout, assignment, world.rank, stop, start.config.replay)
    else:
        states, replays = decode(*cast(Saved, start.saved))
        assignment = Assignment(envs, len(replays) or 1, ranks)
    return GroupStates(group, [assignment.block(rank, states, replays) for rank in range(world.rank, stop)])


def _refuse(start: Start, line: str) -> None:
    """Undo a start whose checkpoint turns out to be damaged."""
    warn(line)
    start.folder.unlock()
