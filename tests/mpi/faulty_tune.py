"""``pg_mpi.tune`` with trials that fail on one rank; used by test_tune.py. The setting ``hidden`` selects the fault.

hidden 8     the group's last rank raises in its first update, after which the trial could be pruned
hidden 9     the group's first rank raises at the start
hidden 10    the gradient of the last rank is NaN in all updates
hidden 14    as 8, and the disk is full when this failure is recorded
hidden 11    with FAULT_MARKER the last rank is killed after the start of two trials. It first creates that file
"""

import errno
import functools
import os
import signal
import sys
import time
from pathlib import Path

from pg_mpi.mpi import process
from pg_mpi.mpi.signals import StopFlag
from pg_mpi.tune import __main__ as tune


def inject():
    from pg_mpi.policy.custom_policy import CustomPolicy
    from pg_mpi.run.trainer import Trainer
    from pg_mpi.tune.study import Study

    start, learn, backward = Trainer.__init__, Trainer.learn, CustomPolicy.backward

    def faulty_start(self, world, config, given):
        if config.hidden == 9 and world.rank == 0:
            raise ArithmeticError("injected at the start")
        CustomPolicy.with_nan = config.hidden == 10 and world.rank == world.size - 1
        start(self, world, config, given)

    def faulty_learn(self, trajectories):
        last = self._world.rank == self._world.size - 1
        if last and self.config.hidden in (8, 14):
            raise ArithmeticError("injected in an update")
        if self.counters.update == 1 and last and self.config.hidden == 11 and "FAULT_MARKER" in os.environ:
            deadline = time.monotonic() + 60
            while len(list(Path().glob("tune.trials/*/config.json"))) < 2:
                assert time.monotonic() < deadline, "no second trial"
                time.sleep(0.05)
            open(os.environ["FAULT_MARKER"], "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        if self.counters.update == 0 and self.config.hidden == 10:
            learn(self, trajectories)  # two updates before the first verdict: one would not fail the trial
        learn(self, trajectories)

    def faulty_backward(self, theta, x, hidden, d_outputs, out):
        backward(self, theta, x, hidden, d_outputs, out)
        if self.with_nan:
            out[0] = float("nan")

    tell = Study.tell

    def faulty_tell(self, *outcome):
        if self._trial.params["hidden"] == 14:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "tune.journal")
        tell(self, *outcome)

    Study.tell = faulty_tell
    Trainer.__init__, Trainer.learn, CustomPolicy.backward = faulty_start, faulty_learn, faulty_backward


if __name__ == "__main__":
    inject()
    process.run(functools.partial(tune.main, stop=StopFlag(True)), sys.argv[1:])
