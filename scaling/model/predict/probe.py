"""Measure what metrics do not show: growth of exchanges with the samples, costs of small minibatches, and of a save.

The run's last policy plays a few rounds in one process and learns from one of them, and from all, repeatedly with
smaller and smaller minibatches. The run stays as it is; its weights are saved once more, into a temporary folder beside
the checkpoints.
"""

import dataclasses
import itertools
import os
import tempfile
import time

import numpy as np
from scipy.optimize import nnls

from pg_mpi.files import checkpoint_file
from pg_mpi.learning.batch import Batch
from pg_mpi.learning.phases import PhaseTimer
from pg_mpi.learning.rollout import Env, Player
from pg_mpi.learning.round_length import round_length
from pg_mpi.learning.sample_groups import SampleGroup
from pg_mpi.learning.schedule import plan
from pg_mpi.mpi.world import World
from pg_mpi.run import env_states, factory, run_state, saved_run
from pg_mpi.run.counters import Counters

ROUNDS = 8
SHARES = (1, 4, 16, 64)  # minibatches per round


def probe(path, arrays, facts, envs_per_rank):
    """Measure (exponent, {sample_s, byte_s, call_s, step_s, save_s, state_bytes}) of a run from its loaded checkpoint.

    The size of an exchange grows with the samples of its update to the power of ``exponent``. A gradient takes
    ``sample_s`` per sample and epoch, ``call_s`` per minibatch and ``byte_s`` per byte of its exchange, the optimizer
    ``step_s`` per byte, and a save ``save_s`` per byte. ``state_bytes``: of an env, the mean.
    """
    config = dataclasses.replace(saved_run.config_of(path, facts), envs_per_rank=envs_per_rank)
    env_spec = saved_run.env_spec_of(config, arrays, facts)
    policy = factory.make_policy(config, env_spec)
    envs = [Env(index, config, env_spec) for index in range(config.envs_per_rank)]
    learner = factory.make_learner(config, policy, World(), PhaseTimer())
    counters = Counters()
    run_state.restore(World(), (arrays, facts), learner, counters)
    states = env_states.first_envs(path, (arrays, facts), envs_per_rank)
    for env in envs:
        env.restore(*states[env.index])
    player, network = Player(envs, env_spec.codes, config, PhaseTimer()), policy.expand()
    length = round_length(config, 2, counters.recent)
    rounds = [player.play(network, length) for _ in range(ROUNDS)]
    learned = learning(policy, config, (rounds[0], sum(rounds, [])), counters.anneal_steps)
    size = int(np.mean([sum(array.nbytes for array in own.values()) for own, _ in states.values()]))
    return growth(policy, rounds), {**learned, "save_s": saving(arrays, os.path.dirname(path)), "state_bytes": size}


def growth(policy, rounds):
    """Exponent with which the number of touched parameters grows with the rounds of a batch."""
    used = np.array([policy.used_rows(Batch(played, policy).x) for played in rounds], dtype=bool)
    counts = 2 ** np.arange(int(np.log2(len(rounds))) + 1)
    unions = [np.mean([used[k : k + n].any(axis=0).sum() for k in range(0, len(used), n)]) for n in counts]
    return float(np.polyfit(np.log(counts), np.log(unions), 1)[0])


def learning(policy, config, sets, anneal_steps):
    """Measure {sample_s, byte_s, call_s, step_s} with several minibatch sizes on two or more sets of trajectories.

    In one set all exchanges have the same size, so the costs of a byte and of a minibatch could not be told apart.
    """
    shares, epochs = ((1,), 1) if config.method == "reinforce" else (SHARES, config.update_epochs)
    rows, spent, stepping = [], [], 0.0
    for played, share in itertools.product(sets, shares):
        samples = sum(trajectory.length for trajectory in played)
        sized = dataclasses.replace(config, minibatch_size=max(1, samples // share), max_minibatches=share)
        phases = PhaseTimer()
        learner = factory.make_learner(sized, policy, World(), phases)
        learner.update([SampleGroup(played, np.random.default_rng(0), 0, 1)], plan(sized, samples, anneal_steps))
        rows.append((epochs * samples, learner.bytes_exchanged, learner.exchanges))
        spent.append(phases.seconds["gradient"])
        stepping += phases.seconds["optimizer"]
    columns, spent = np.array(rows, dtype=float), np.array(spent)
    scale = columns.max(axis=0)
    found, _ = nnls(columns / scale / spent[:, None], np.ones(len(spent)))
    costs = dict(zip(("sample_s", "byte_s", "call_s"), map(float, found / scale)))
    return {**costs, "step_s": stepping / float(columns[:, 1].sum())}


def saving(arrays, beside):
    """Measure the seconds per byte of a save, in a temporary folder in ``beside``."""
    with tempfile.TemporaryDirectory(dir=beside) as folder:
        begun = time.perf_counter()
        checkpoint_file.save(os.path.join(folder, "saved.npz"), arrays, {})
        return (time.perf_counter() - begun) / sum(array.nbytes for array in arrays.values())
