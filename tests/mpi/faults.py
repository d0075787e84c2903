"""The trainer with a fault injected on one rank; used by test_failures.py. Usage: FAULT [train arguments]."""

import functools
import os
import resource
import signal
import sys

from pg_mpi import train
from pg_mpi.mpi import process
from pg_mpi.mpi.signals import StopFlag


def inject(fault, rank):
    """Inject a fault after the second update of one rank."""
    from pg_mpi.run.trainer import Trainer

    learn = Trainer.learn

    def faulty(self, trajectories):
        learn(self, trajectories)
        if self.counters.update != 2 or rank != (0 if fault.endswith("0") and fault != "exit0" else 1):
            return
        if fault == "raise":
            raise ArithmeticError("injected")
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
            sum(range(10**15))  # in C, without releasing the GIL
        if fault == "nan_weights":
            self.learner.policy.theta[12345:] = float("nan")
        if fault == "small files":
            resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, resource.RLIM_INFINITY))
        if fault in ("weights", "weights0"):
            self.learner.policy.theta[123] += 1e-7
        if fault == "usage":
            from pg_mpi.config.errors import UsageError

            raise UsageError("injected on one rank")

    Trainer.learn = faulty


def inject_nan(rank, updates):
    """Make the gradient of rank 1 NaN once in each of these updates."""
    from pg_mpi.policy.custom_policy import CustomPolicy
    from pg_mpi.policy.sparse_mlp import SparseMLP
    from pg_mpi.run.trainer import Trainer

    learn = Trainer.learn
    remaining = set(updates)

    def faulty(self, trajectories):
        self.learner.policy.update = self.counters.update + 1
        learn(self, trajectories)

    def with_nan(backward):
        def changed(self, theta, x, hidden, d_outputs, out):
            backward(self, theta, x, hidden, d_outputs, out)
            if rank == 1 and getattr(self, "update", None) in remaining:
                remaining.remove(self.update)
                out[7] = float("nan")

        return changed

    Trainer.learn = faulty
    for kind in (SparseMLP, CustomPolicy):
        kind.backward = with_nan(kind.backward)


def inject_emulator_errors(rank, chance):
    """Make the emulators of rank 1 raise with this probability per step."""
    import numpy as np

    from pg_mpi.env.atari import AtariGame

    step, rng = AtariGame.step, np.random.default_rng(rank)

    def faulty(self, action):
        if rank == 1 and rng.random() < chance:
            raise RuntimeError("injected in the emulator")
        return step(self, action)

    AtariGame.step = faulty


def inject_signals(rank, phase, number, count=1, target=1):
    """Make a rank send itself signals when it enters this phase of its second update, or at the end of the run."""
    from pg_mpi.learning.phases import PhaseTimer
    from pg_mpi.run.run_log import RunLog
    from pg_mpi.run.trainer import Trainer

    play, enter, close = Trainer.play, PhaseTimer.__call__, RunLog.close

    def send():
        for _ in range(count):
            os.kill(os.getpid(), number)

    def faulty_play(self, stop=False):
        self.phases.update = self.counters.update + 1
        return play(self, stop)

    def faulty_enter(self, name):
        if rank == target and name == phase and getattr(self, "update", 0) == 2:
            self.update = None
            send()
        return enter(self, name)

    def faulty_close(self, *args):
        close(self, *args)
        if phase == "end" and rank == target:
            send()

    Trainer.play, PhaseTimer.__call__, RunLog.close = faulty_play, faulty_enter, faulty_close


def inject_two_losses(rank):
    """Kill rank 1 in its second update, and rank 2 while the others continue without rank 1."""
    from pg_mpi.run.elastic import BuddyCopies

    redistributed = BuddyCopies.redistributed

    def faulty(self, *args):
        if rank == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return redistributed(self, *args)

    BuddyCopies.redistributed = faulty
    inject_signals(rank, "wait", signal.SIGKILL)


def inject_full_disk(rank, size):
    """Limit the files of rank 0 to ``size`` bytes, so that writes fail as on a full disk."""
    if rank == 0:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def main(world, argv, stop):
    fault, _, value = argv[0].partition(":")
    if fault == "nan":
        inject_nan(world.rank, {int(update) for update in value.split(",")})
    elif fault == "emulator":
        inject_emulator_errors(world.rank, float(value))
    elif fault == "signal":
        phase, count = value.split(",")
        inject_signals(world.rank, phase, signal.SIGUSR1, int(count))
    elif fault == "kill":
        phase, target = value.split(",")
        inject_signals(world.rank, phase, signal.SIGKILL, target=int(target))
    elif fault == "two losses":
        inject_two_losses(world.rank)
    elif fault == "disk":
        inject_full_disk(world.rank, int(value))
    else:
        inject(fault, world.rank)
    return train.main(world, argv[1:], stop)


if __name__ == "__main__":
    process.run(functools.partial(main, stop=StopFlag()), sys.argv[1:])
