"""``pg_mpi.tune`` with trials that go wrong on one rank; used by test_tune.py. HIDDEN says how.

hidden 8     an exception on the last rank of the group alone, in its first update, after which it could be pruned
hidden 9     an exception on the group's first rank alone, while it starts
hidden 10    a gradient that is NaN for ever, on the last rank
hidden 11    the process of the last rank is killed, once, when two trials have begun: PLANTED names a file that
             remembers it
"""

import functools
import os
import signal
import sys
import time
from pathlib import Path

from pg_mpi.mpi import process
from pg_mpi.mpi.signals import StopFlag
from pg_mpi.tune import __main__ as tune


def plant():
    from pg_mpi.policy.sparse_mlp import SparseMLP
    from pg_mpi.run.trainer import Trainer

    start, learn, backward = Trainer.__init__, Trainer.learn, SparseMLP.backward

    def faulty_start(self, world, config, given):
        if config.hidden == 9 and world.rank == 0:
            raise ArithmeticError("planted at the start")
        SparseMLP.spoilt = config.hidden == 10 and world.rank == world.size - 1
        start(self, world, config, given)

    def faulty_learn(self, trajectories):
        last = self._world.rank == self._world.size - 1
        if last and self.config.hidden == 8:
            raise ArithmeticError("planted in an update")
        if (
            self.counters.update == 1
            and last
            and self.config.hidden == 11
            and not os.path.exists(os.environ["PLANTED"])
        ):
            deadline = time.monotonic() + 60
            while len(list(Path().glob("tune.trials/*/config.json"))) < 2:
                assert time.monotonic() < deadline, "no second trial"
                time.sleep(0.05)
            open(os.environ["PLANTED"], "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        learn(self, trajectories)

    def faulty_backward(self, theta, x, hidden, d_outputs, out):
        backward(self, theta, x, hidden, d_outputs, out)
        if self.spoilt:
            out[0] = float("nan")

    Trainer.__init__, Trainer.learn, SparseMLP.backward = faulty_start, faulty_learn, faulty_backward


if __name__ == "__main__":
    plant()
    process.run(functools.partial(tune.main, stop=StopFlag(True)), sys.argv[1:])
