"""``pg_mpi.train`` with clocks that differ by seven seconds from rank to rank, as on different hosts.

Used by ``tests/scaling/test_timeline.py``. Usage: [train arguments].
"""

import functools
import sys
import time

from pg_mpi import train
from pg_mpi.mpi import process
from pg_mpi.mpi.signals import StopFlag


def main(world, argv, stop):
    world.clock = lambda: time.monotonic() + 7 * world.rank
    return train.main(world, argv, stop)


if __name__ == "__main__":
    process.run(functools.partial(main, stop=StopFlag(True)), sys.argv[1:])
