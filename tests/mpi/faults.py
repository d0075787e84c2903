"""The trainer with a fault planted on one rank; used by test_failures.py. Usage: FAULT [train arguments]."""

import functools
import os
import resource
import signal
import sys

from pg_mpi import train
from pg_mpi.mpi import process
from pg_mpi.mpi.signals import StopFlag


def plant(fault, rank):
    """Make this rank go wrong in its second update."""
    from pg_mpi.run.trainer import Trainer

    learn = Trainer.learn

    def faulty(self, trajectories):
        learn(self, trajectories)
        if self.counters.update != 2 or rank != (0 if fault.endswith("0") and fault != "exit0" else 1):
            return
        if fault == "raise":
            raise ArithmeticError("planted")
        if fault == "exit":
            sys.exit(3)
        if fault == "exit0":
            sys.exit(0)
        if fault == "exit_hard":
            os._exit(0)
        if fault in signal.Signals.__members__:
            os.kill(os.getpid(), signal.Signals[fault])
        if fault == "loop":
            while True:
                pass
        if fault == "greedy loop":
            sum(range(10**15))  # in C, without ever letting go of the interpreter
        if fault == "nan_weights":
            self._learner.policy.theta[12345:] = float("nan")
        if fault in ("weights", "weights0"):
            self._learner.policy.theta[12345] += 1e-7
        if fault == "usage":
            from pg_mpi.config.errors import UsageError

            raise UsageError("planted on one rank")

    Trainer.learn = faulty


def plant_nan(rank, updates):
    """Let the gradient of rank 1 be NaN in these updates, once in each."""
    from pg_mpi.policy.sparse_mlp import SparseMLP
    from pg_mpi.run.trainer import Trainer

    learn, backward = Trainer.learn, SparseMLP.backward
    left = set(updates)

    def faulty(self, trajectories):
        self._learner.policy.update = self.counters.update + 1
        learn(self, trajectories)

    def spoilt(self, theta, x, hidden, d_outputs, out):
        backward(self, theta, x, hidden, d_outputs, out)
        if rank == 1 and self.update in left:
            left.remove(self.update)
            out[7] = float("nan")

    Trainer.learn, SparseMLP.backward = faulty, spoilt


def plant_emulator_errors(rank, chance):
    """Let the emulators of rank 1 raise with this probability at each step."""
    import numpy as np

    from pg_mpi.env.atari import AtariGame

    act, rng = AtariGame.step, np.random.default_rng(rank)

    def faulty(self, action):
        if rank == 1 and rng.random() < chance:
            raise RuntimeError("planted in the emulator")
        return act(self, action)

    AtariGame.step = faulty


def plant_signals(rank, phase, number, count=1, who=1):
    """Let a rank send itself a signal so many times when it comes to this phase of its second update, or to the end."""
    from pg_mpi.run.phase_timer import PhaseTimer
    from pg_mpi.run.trainer import Trainer

    play, enter, close = Trainer.play, PhaseTimer.__call__, Trainer._close_run_log

    def hit():
        for _ in range(count):
            os.kill(os.getpid(), number)

    def playing(self, stop=False):
        self._phases.update = self.counters.update + 1
        return play(self, stop)

    def entering(self, name):
        if rank == who and name == phase and getattr(self, "update", 0) == 2:
            self.update = None
            hit()
        return enter(self, name)

    def closing(self, *words):
        close(self, *words)
        if phase == "end" and rank == who:
            hit()

    Trainer.play, PhaseTimer.__call__, Trainer._close_run_log = playing, entering, closing


def plant_full_disk(rank, size):
    """Let files of rank 0 grow to ``size`` bytes and no further: the kernel refuses as it does on a full disk."""
    if rank == 0:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def main(world, argv, stop):
    fault, _, value = argv[0].partition(":")
    if fault == "nan":
        plant_nan(world.rank, {int(update) for update in value.split(",")})
    elif fault == "emulator":
        plant_emulator_errors(world.rank, float(value))
    elif fault == "signal":
        phase, count = value.split(",")
        plant_signals(world.rank, phase, signal.SIGUSR1, int(count))
    elif fault == "kill":
        phase, who = value.split(",")
        plant_signals(world.rank, phase, signal.SIGKILL, who=int(who))
    elif fault == "disk":
        plant_full_disk(world.rank, int(value))
    else:
        plant(fault, world.rank)
    return train.main(world, argv[1:], stop)


if __name__ == "__main__":
    process.run(functools.partial(main, stop=StopFlag()), sys.argv[1:])
