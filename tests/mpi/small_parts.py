"""``pg_mpi.train`` with at most two envs and two replay buffers in a part; used by test_parts.py and tests/chaos.

Usage: [FAULT] [train arguments], with a fault of faults.py.
"""

import functools
import sys

import faults

from pg_mpi import train
from pg_mpi.mpi import process
from pg_mpi.mpi.signals import StopFlag
from pg_mpi.run import env_states

env_states.ENVS = env_states.REPLAYS = 2

if __name__ == "__main__":
    main = train.main if sys.argv[1].startswith("--") else faults.main
    process.run(functools.partial(main, stop=StopFlag(True)), sys.argv[1:])
