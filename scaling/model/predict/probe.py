"""What a run's metrics cannot tell: how exchanges grow with the samples, and what learning costs in small pieces.

The run's last policy plays a few more rounds here, in one process and with nothing saved, and learns from one of them
again and again with smaller and smaller minibatches.
"""

import dataclasses

import numpy as np
from scipy.optimize import nnls

from pg_mpi.learning.batch import Batch
from pg_mpi.learning.rollout import Env, Player
from pg_mpi.learning.sample_groups import SampleGroup
from pg_mpi.learning.schedule import annealing
from pg_mpi.mpi.world import World
from pg_mpi.run import factory, run_state
from pg_mpi.run.counters import Counters
from pg_mpi.run.phase_timer import PhaseTimer

ROUNDS = 8
SHARES = (1, 4, 16, 64)  # minibatches are so many times smaller than a round


def probe(path, arrays, facts, envs_per_rank):
    """(exponent, sample_s, byte_s, call_s) of a run, from a checkpoint of it as it was loaded.

    An exchange grows with the samples of its update to the power of ``exponent``; learning from a sample once takes
    ``sample_s``, a minibatch ``call_s`` more and each byte of its exchange ``byte_s``.
    """
    config = dataclasses.replace(run_state.config_of(path, facts), envs_per_rank=envs_per_rank)
    env_spec = run_state.env_spec_of(arrays, facts)
    policy = factory.make_policy(config, env_spec)
    envs = [Env(index, config, env_spec) for index in range(config.envs_per_rank)]
    learner = factory.make_learner(config, policy, World(), PhaseTimer())
    counters = Counters()
    run_state.apply(arrays, facts, env_spec, policy, learner, counters, envs)
    player, network = Player(envs, env_spec.codes, config, PhaseTimer()), policy.expand()
    rounds = [player.play(network) for _ in range(ROUNDS)]
    return growth(policy, rounds), *learning(policy, config, rounds[0], annealing(config, counters.env_steps))


def growth(policy, rounds):
    """The exponent with which the parameters that a batch touches grow with its rounds."""
    used = np.array([policy.used_rows(Batch(played, policy).x) for played in rounds], dtype=bool)
    counts = 2 ** np.arange(int(np.log2(len(rounds))) + 1)
    unions = [np.mean([used[k : k + n].any(axis=0).sum() for k in range(0, len(used), n)]) for n in counts]
    return float(np.polyfit(np.log(counts), np.log(unions), 1)[0])


def learning(policy, config, played, anneal):
    """(sample_s, byte_s, call_s) by learning from the same trajectories in minibatches of several sizes."""
    samples = sum(trajectory.length for trajectory in played)
    if config.method == "reinforce":
        shares, epochs = (1,), 1
    else:
        shares, epochs = SHARES, config.update_epochs
    rows, spent = [], []
    for share in shares:
        sized = dataclasses.replace(config, minibatch_size=max(1, samples // share))
        phases = PhaseTimer()
        learner = factory.make_learner(sized, policy, World(), phases)
        learner.update([SampleGroup(played, np.random.default_rng(0), 0, 1)], anneal)
        rows.append((epochs * samples, learner.bytes_exchanged, learner.exchanges))
        spent.append(phases.seconds["gradient"] + phases.seconds["optimizer"])
    columns, spent = np.array(rows, dtype=float), np.array(spent)
    scale = columns.max(axis=0)
    found, _ = nnls(columns / scale / spent[:, None], np.ones(len(spent)))
    return tuple(map(float, found / scale))
