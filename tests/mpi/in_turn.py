"""Run ``pg_mpi.train`` several times in one job; used by ``jobs.train_in_turn``.

Usage: MODULE RUN [RUN ...]. MODULE is imported for what it changes; each RUN is a JSON list of train arguments.
"""

import functools
import importlib
import json
import sys

from pg_mpi import train
from pg_mpi.mpi import process
from pg_mpi.mpi.signals import StopFlag


def main(world, argv, stop):
    importlib.import_module(argv[0])
    return max(train.main(world, json.loads(run), stop) for run in argv[1:])


if __name__ == "__main__":
    process.run(functools.partial(main, stop=StopFlag(True)), sys.argv[1:])
