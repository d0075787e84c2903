"""What a run would do, need and save: ``pg_mpi.train --dry-run --ranks N``, in one process, without a run folder."""

import contextlib
import textwrap

import numpy as np

from pg_mpi import __version__
from pg_mpi.config.settings import TrainConfig, inapplicable
from pg_mpi.env import registry
from pg_mpi.env.interface import EnvSpec
from pg_mpi.learning.learner import Learner
from pg_mpi.learning.phases import PhaseTimer
from pg_mpi.learning.rollout import Env, Player
from pg_mpi.learning.round_length import RoundLength, longest_round, whole_games
from pg_mpi.learning.sample_groups import sample_groups
from pg_mpi.learning.schedule import plan
from pg_mpi.learning.self_imitation.replay_buffer import SIZE, TRANSITION
from pg_mpi.mpi import thread_pinning
from pg_mpi.mpi.world import World
from pg_mpi.run import factory
from pg_mpi.run.env_states import group_size, pack
from pg_mpi.run.throughput import resident_mb
from pg_mpi.run.update_size import describe

MOST_STEPS = 4096  # of all envs together in the round that is measured


def lines(config: TrainConfig, ranks: int) -> list[str]:
    """Describe what a run would do, need and save: lines of text. A short round of one rank measures its memory.

    Raises ``UsageError``.
    """
    thread_pinning.pin_threads()
    registry.check(config)
    env_spec = registry.make_spec(config)
    factory.try_out(config, env_spec)
    with contextlib.ExitStack() as stack:
        envs = [Env(index, config, env_spec) for index in range(config.envs_per_rank)]
        for env in envs:
            stack.callback(env.close)
        learner = _one_round(config, env_spec, envs)
        state = pack({env.index: env.state() for env in envs}, None).nbytes / len(envs)
    parameters, slots, in_all = learner.policy.theta.size, len(learner.optimizer.state), ranks * len(envs)
    exchange = (parameters + 1) * (8 if config.reproducible else 4)
    memory = resident_mb() + (3 + slots) * exchange / 1e6  # upper bound: an update that touches all copies them
    weights, replays = 4 * parameters * (1 + slots), ranks * SIZE * TRANSITION if config.replay else 0
    memory += replays / ranks / 1e6
    form = "one file, or parts if the ranks are on several hosts"
    if (group := group_size(config, ranks, 1)) < ranks:
        form = f"in parts, each of at most {group:,} ranks of one host"
    unused = inapplicable(config)
    settings = [f"{name} {value}" for name, value in vars(config).items() if name not in unused and value is not None]
    return [
        f"pg_mpi {__version__}: {config.env_id}, preset {config.preset}; ranks: {ranks:,}, envs: {in_all:,}",
        f"policy: {parameters:,} parameters",
        *describe(config, in_all),
        f"an exchange: at most {exchange / 1e6:,.1f} MB",
        f"memory: about {memory:,.0f} MB a rank, without MPI's",
        f"a checkpoint: {(weights + replays + in_all * state) / 1e6:,.1f} MB: {weights / 1e6:,.1f} MB of weights and "
        f"optimizer, {f'at most {replays / 1e6:,.1f} MB of replay buffers, ' if replays else ''}"
        f"{state / 1e3:,.1f} kB for each env; {form}",
        *textwrap.wrap(f"settings: {', '.join(settings)}", 100, subsequent_indent="  "),
    ]


def _one_round(config: TrainConfig, env_spec: EnvSpec, envs: list[Env]) -> Learner:
    """Play a short round and learn from it."""
    policy, phases, world = factory.make_policy(config, env_spec), PhaseTimer(), World()
    learner = factory.make_learner(config, policy, world, phases)
    steps = min(longest_round(config), max(1, MOST_STEPS // len(envs)))
    length = RoundLength(np.inf, 1) if whole_games(config) else RoundLength(steps, np.inf)
    played = Player(envs, env_spec.codes, config, phases).play(policy.expand(), length)
    samples = sum(trajectory.length for trajectory in played)
    learner.update(sample_groups(played, envs, config, world, len(envs)), plan(config, samples))
    return learner
