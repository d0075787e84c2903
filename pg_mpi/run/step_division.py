"""Which ranks divide an optimizer step: see ``learning/optimizer_steps.py``."""

import platform
from typing import cast

from pg_mpi.config.settings import TrainConfig
from pg_mpi.mpi.interface import Collectives
from pg_mpi.mpi.world import World


def ranks_per_step(world: Collectives, config: TrainConfig, hosts: int) -> int:
    """The number of consecutive ranks that divide an optimizer step: the largest of ``divisors`` that fits all hosts.

    1 with ``--elastic``, which changes the number of ranks, in a ``World.group``, and where ranks of several hosts
    alternate. Collective: every rank must call this.
    """
    if config.elastic or not world.divides:
        return 1
    numbers = divisors(world.size, hosts)
    if hosts == 1:
        return numbers[0]
    here = platform.node()
    begins = cast(World, world).shift(here) != here
    apart = world.any(*(begins and world.rank % number != 0 for number in numbers))
    return numbers[apart.index(False)]


def divisors(ranks: int, hosts: int) -> list[int]:
    """The divisors of ``ranks``, down to 1, that are at most its mean number on a host."""
    return [number for number in range(max(1, ranks // hosts), 0, -1) if ranks % number == 0]
