"""``pg_mpi.train`` with a replay buffer of 700 transitions and small batches; used by test_self_imitation.py."""

import functools
import sys

from pg_mpi.learning.self_imitation import source
from pg_mpi.mpi import process
from pg_mpi.mpi.signals import StopFlag
from pg_mpi.train import main

source.SIZE, source.BATCH, source.UPDATES = 700, 61, 3

if __name__ == "__main__":
    process.run(functools.partial(main, stop=StopFlag(True)), sys.argv[1:])
