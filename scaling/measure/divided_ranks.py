"""Train with optimizer steps divided among ranks from a given number on, for ``scaling.measure.divided``.

python -m scaling.measure.divided_ranks FEWEST [the words of pg_mpi.train ...]
"""

import functools
import sys

from pg_mpi import train
from pg_mpi.mpi import process
from pg_mpi.mpi.launch import launch_env
from pg_mpi.mpi.signals import StopFlag


def main(world, argv, stop):
    """Train as ``pg_mpi.train`` does. Collective: every rank must call this."""
    from pg_mpi.run import dividing

    fewest, *words = argv
    dividing.FEWEST = int(fewest)
    return train.main(world, words, stop)


if __name__ == "__main__":
    flag = StopFlag(launch_env.is_launched())  # first: a signal during the start must not kill the job
    process.run(functools.partial(main, stop=flag), sys.argv[1:])
