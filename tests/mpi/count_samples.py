"""Run updates on numbered samples and save the gradient of each optimizer step; used by test_samples.py.

Usage: LENGTHS OUT FLAGS. LENGTHS gives the steps of each env: "9,4|0,30" has two envs on each of two ranks, one of them
without a step. Sample i observes input i alone. The updates are run without and with ``--reproducible``.
"""

import sys
from types import SimpleNamespace

import numpy as np

from pg_mpi.config.command_line import parse_train
from pg_mpi.learning.optimizer import Adam
from pg_mpi.learning.parameter_store import ParameterStore
from pg_mpi.learning.phases import PhaseTimer
from pg_mpi.learning.sample_groups import sample_groups
from pg_mpi.learning.schedule import plan
from pg_mpi.learning.trajectory import Trajectory
from pg_mpi.mpi import process
from pg_mpi.policy.custom_policy import CustomPolicy
from pg_mpi.policy.distributions import Categorical
from pg_mpi.run import factory

UPDATES = 2


class CountingPolicy:
    """A custom policy whose gradient counts the samples of the last ``forward``, by their number."""

    def __init__(self, samples):
        self.theta = np.zeros(samples, dtype=np.float32)

    def forward(self, observations):
        self._observations = observations
        return np.zeros((observations.shape[0], 3), dtype=np.float32)

    def backward(self, d_outputs):
        return np.asarray(self._observations.sum(axis=0), dtype=np.float32).ravel()


class RecordingAdam(Adam):
    """Adam that records the gradient of each step."""

    def __init__(self, parameters):
        super().__init__(parameters)
        self.gradients = []

    def step(self, theta, gradient, state, learning_rate):
        self.gradients.append(gradient.copy())
        super().step(theta, gradient, state, learning_rate)


def trajectory_of(samples):
    """Return a trajectory of these samples."""
    trajectory = Trajectory()
    for number in samples:
        trajectory.record(np.array([number]), number % 2, np.log(0.5), 0.0, 1.0, False)
    return trajectory


def gradients_of(world, lengths, flags):
    """The gradient of each optimizer step, float32 (steps, samples)."""
    lengths = [[int(length) for length in rank.split(",")] for rank in lengths.split("|")]
    counts = np.concatenate(lengths)
    samples = np.split(np.arange(counts.sum()), np.cumsum(counts)[:-1])
    first = sum(map(len, lengths[: world.rank]))
    local = range(first, first + len(lengths[world.rank]))
    config, _ = parse_train(["--env-id", "ALE/Breakout-v5", *flags])
    policy = CustomPolicy(CountingPolicy(counts.sum()), Categorical(2), counts.sum(), True, None, False)
    optimizer = RecordingAdam(policy.theta.size)
    learner = factory.make_learner(config, policy, world, PhaseTimer(), store=ParameterStore(policy, optimizer, config))
    envs = [SimpleNamespace(index=index, shuffle=np.random.default_rng([3, index])) for index in local]
    for _ in range(UPDATES):
        trajectories = [trajectory_of(samples[index]) for index in local]
        learner.update(sample_groups(trajectories, envs, config, world, len(counts)), plan(config, counts.sum()))
    gradients = np.array(optimizer.gradients)
    assert len(set(world.gather_all(gradients.tobytes()))) == 1, "ranks differ"
    return gradients


def main(world, argv):
    lengths, out, *flags = argv
    plain, reproducible = (gradients_of(world, lengths, [*flags, *more]) for more in ([], ["--reproducible"]))
    if world.rank == 0:
        np.savez(out, plain=plain, reproducible=reproducible)
    return 0


if __name__ == "__main__":
    process.run(main, sys.argv[1:])
