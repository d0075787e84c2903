"""The trainer with a fault planted on one rank; used by test_failures.py. Usage: FAULT [train arguments]."""

import functools
import sys

from pg_mpi import train
from pg_mpi.cluster import comm
from pg_mpi.cluster.signals import StopFlag


def plant(fault, rank):
    """Make this rank go wrong in its second update."""
    from pg_mpi.trainer import Trainer

    learn = Trainer.learn

    def faulty(self):
        learn(self)
        if self.tally.update != 2 or rank != (0 if fault.endswith("0") and fault != "exit0" else 1):
            return
        if fault == "raise":
            raise ArithmeticError("planted")
        if fault == "exit":
            sys.exit(3)
        if fault == "exit0":
            sys.exit(0)
        if fault in ("weights", "weights0"):
            self._learner.policy.theta[12345] += 1e-7
        if fault == "usage":
            from pg_mpi.errors import UsageError

            raise UsageError("planted on one rank")

    Trainer.learn = faulty


def main(world, argv, stop):
    plant(argv[0], world.rank)
    return train.main(world, argv[1:], stop)


if __name__ == "__main__":
    comm.run(functools.partial(main, stop=StopFlag()), sys.argv[1:])
