"""``pg_mpi.train`` whose groups have at most two envs, so that a small run has its checkpoints in parts."""

import functools
import sys

from pg_mpi.mpi import process
from pg_mpi.mpi.signals import StopFlag
from pg_mpi.run import env_states
from pg_mpi.train import main

if __name__ == "__main__":
    env_states.ENVS = 2
    process.run(functools.partial(main, stop=StopFlag(True)), sys.argv[1:])
