"""Run updates on given trajectories; used by test_split.py. Usage: CASES, a JSON list of [METHOD, DISTRIBUTION, GROUP].

DISTRIBUTION assigns trajectories to ranks: "0,1|2|" gives 0 and 1 to rank 0, 2 to rank 1, none to rank 2.
GROUP ranks divide the optimizer's work. Case i on N ranks is saved in N-i.npz.
"""

import json
import sys

import numpy as np

from pg_mpi.config.command_line import parse_train
from pg_mpi.learning.optimizer import Adam, RMSProp
from pg_mpi.learning.parameter_store import ParameterStore
from pg_mpi.learning.phases import PhaseTimer
from pg_mpi.learning.sample_groups import SampleGroup
from pg_mpi.learning.schedule import plan
from pg_mpi.learning.trajectory import Trajectory
from pg_mpi.mpi import process
from pg_mpi.policy.sparse_mlp import SparseMLP
from pg_mpi.run import factory

LENGTHS = [40, 7, 25]
DIFFER = ("grad_signal", "grad_variance")  # they compare the ranks


def make_trajectory(index):
    """Return trajectory ``index``: random observations and rewards, seeded by the index. A reward ends a return."""
    rng = np.random.default_rng(index)
    trajectory = Trajectory()
    for t in range(LENGTHS[index]):
        observation = np.sort(rng.choice(12_800, rng.integers(20, 60), replace=False))
        reward = float(rng.choice([-1, 0, 1], p=[0.1, 0.8, 0.1]))
        end = reward != 0 or t == LENGTHS[index] - 1
        trajectory.record(observation, rng.integers(3), np.log(rng.uniform(0.2, 0.6)), rng.normal(), reward, end)
    trajectory.end_game(0, LENGTHS[index])
    return trajectory


class IdentityShuffle:
    """Replaces the shuffling stream. Keeps the samples in order."""

    def permutation(self, n):
        return np.arange(n)


def run_case(world, method, distribution, group, out):
    method, _, size = method.partition(":")  # "clipped:20": minibatches of about 20 samples
    epochs = ["--minibatch-size", size or "100000", "--update-epochs", "3"] if method == "clipped" else []
    config, _ = parse_train(["--method", method, *epochs])
    policy = SparseMLP(12_800, 8, 3, dtype=np.float64)
    policy.theta[...] = np.random.default_rng(0).normal(size=policy.theta.size) * 0.1
    kind = RMSProp if method == "reinforce" else Adam
    store = ParameterStore(policy, kind(policy.theta.size, dtype=np.float64), config)
    learner = factory.make_learner(config, policy, world, PhaseTimer(), group, store)
    local = [make_trajectory(int(index)) for index in distribution.split("|")[world.rank].split(",") if index]
    samples = [SampleGroup(local, IdentityShuffle(), world.rank, world.size)]
    played = plan(config, sum(LENGTHS[int(index)] for index in distribution.replace("|", ",").split(",") if index))
    stats = [learner.update(samples, played) for _ in range(2)]
    weights = world.gather_all(policy.theta.tobytes() + store.optimizer.state.tobytes())
    assert len(set(weights)) == 1, "ranks differ"
    if world.rank == 0:
        np.savez(
            out,
            theta=policy.theta,
            state=store.optimizer.state,
            stats=[[v for k, v in s.items() if v is not None and k not in DIFFER] for s in stats],
        )


def main(world, argv):
    for number, case in enumerate(json.loads(argv[0])):
        run_case(world, *case, f"{world.size}-{number}.npz")
    return 0


if __name__ == "__main__":
    process.run(main, sys.argv[1:])
