"""``pg_mpi.train`` with a ring of 700 transitions and small odd batches; used by test_imitation.py."""

import functools
import sys

from pg_mpi import imitation
from pg_mpi.cluster import job
from pg_mpi.cluster.signals import StopFlag
from pg_mpi.train import main

if __name__ == "__main__":
    imitation.SIZE, imitation.BATCH, imitation.UPDATES = 700, 61, 3
    job.run(functools.partial(main, stop=StopFlag(True)), sys.argv[1:])
