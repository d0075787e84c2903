"""Which ranks divide an optimizer step: see ``learning/optimizer_steps.py``."""

import platform
from typing import cast

from pg_mpi.config.settings import TrainConfig
from pg_mpi.mpi.interface import Collectives
from pg_mpi.mpi.world import World


def ranks_together(world: Collectives, config: TrainConfig, hosts: int) -> int:
    """The number of consecutive ranks that divide an optimizer step: those that ``dividing`` gives.

    1 with ``--elastic``, which changes the number of ranks, and where ranks of several hosts alternate. Collective:
    every rank must call this.
    """
    if config.elastic or not world.divides:
        return 1
    number = dividing(world.size, hosts)
    if hosts > 1 and number > 1:
        here = platform.node()
        apart = cast(World, world).shift(here) != here and world.rank % number != 0
        if world.any(apart)[0]:
            return 1
    return number


def dividing(ranks: int, hosts: int) -> int:
    """How many consecutive ranks divide a step on hosts of equal size: the largest divisor of ``ranks`` on a host."""
    return next(number for number in range(max(1, ranks // hosts), 0, -1) if ranks % number == 0)
