"""Conversion of a run to a checkpoint's arrays and facts, and back, but for its envs: see ``env_states``."""

from typing import Any, cast

from pg_mpi.config.settings import TrainConfig
from pg_mpi.env.interface import EnvSpec
from pg_mpi.learning.learner import Learner
from pg_mpi.mpi.interface import Collectives
from pg_mpi.run.counters import Counters
from pg_mpi.run.saved_run import FORMAT, Saved, checking, fill, fill_policy, identity


def collect(config: TrainConfig, env_spec: EnvSpec, learner: Learner, counters: Counters) -> Saved:
    """The arrays and facts of a checkpoint that are equal on all ranks.

    With those of ``env_states.gather`` the arrays of one file are (P parameters, E envs, B backgrounds):

        theta          float32 (P,)          the policy's parameters
        optimizer      float32 (slots, P)    Adam: m and v; RMSProp: its cache
        running_norm   float64 (...)         statistics of observations and returns, see ``RunningNorm``
        backgrounds    uint8 (B, H, 160)     of an Atari game, and classes, uint8 (256,)
        emulators      uint8 (bytes,)        the emulator states of all envs in order, concatenated
        emulator_sizes int64 (E,)
        encoders       uint8 (bytes,)        the encoder states, likewise, with encoder_sizes
        replay_R_NAME                        replay state of rank R, with --replay: see ``ReplayBuffer.state``

    Any number of ranks that divides the number of envs can resume them.
    """
    arrays = {"theta": learner.policy.theta, "optimizer": learner.optimizer.state}
    if learner.policy.norm:
        arrays["running_norm"] = learner.policy.norm.state
    spec_arrays, spec_facts = env_spec.saved()
    facts = {
        "format": FORMAT,
        "identity": identity(config),
        "counters": counters.state(),
        "learner": learner.counters(),
    }
    return arrays | spec_arrays, facts | spec_facts


def restore(world: Collectives, saved: Saved | None, learner: Learner, counters: Counters) -> None:
    """Restore weights, optimizer and counters on all ranks from what rank 0 has loaded.

    Collective: every rank must call this. Raises ``CheckpointError``, alike on all ranks.
    """

    def prepare() -> tuple[Any, Any]:
        arrays, facts = cast(Saved, saved)
        with checking():
            fill_policy(learner.policy, arrays)
            fill(learner.optimizer.state, arrays["optimizer"])
            return facts["learner"], facts["counters"]

    learner_facts, counter_facts = world.on_root(prepare)
    world.broadcast_(learner.optimizer.state)
    with checking(agreed=True):
        learner.restore(learner_facts)
        counters.restore(counter_facts)
