"""pg_mpi from Python: train, load a policy, read metrics. For example::

    from pg_mpi import api

    run = api.train({"env_id": "CartPole-v1", "target_return": 475, "run_dir": "runs/cartpole"})
    policy = api.load(run)
    score, steps = policy.play(game=0)
    metrics = api.metrics(run)
    metrics["env_steps"], metrics["return_mean"]

On several ranks pass a communicator, and start with ``mpirun -n 4 python -m mpi4py script.py``, which ends all ranks if
one of them raises::

    from mpi4py import MPI
    run = api.train({"total_timesteps": 1_000_000}, MPI.COMM_WORLD)
"""

import contextlib
import os
import signal
from collections.abc import Collection, Mapping
from typing import Any

from pg_mpi.config.command_line import flag
from pg_mpi.files.metrics_columns import Columns, read_columns
from pg_mpi.mpi.signals import STOP_SIGNALS, StopFlag
from pg_mpi.mpi.world import World
from pg_mpi.run.trained_policy import TrainedPolicy, find
from pg_mpi.run.trainer import Trainer
from pg_mpi.train import loop, read_settings

__all__ = ["load", "metrics", "train"]


def train(config: Mapping[str, Any], comm: Any = None) -> str:
    """Train as ``python -m pg_mpi.train`` does, or resume the run in its folder; returns the run folder.

    Ctrl-C, TERM and USR1 save a checkpoint and return. ``watchdog``, which ends the process, has no effect. Collective:
    every rank of ``comm`` must call this, in the main thread.

    Args:
        config: settings by name, as ``--help`` lists them: ``{"env_id": "ALE/Breakout-v5", "max_walltime": 600}``.
            A value of None leaves that setting at its default.
        comm: an mpi4py communicator; None: one rank, without MPI.

    Raises:
        UsageError: a wrong setting, a checkpoint that cannot be used.
        RunError: the run cannot start or continue: another process uses the folder, or a disk is full.
    """
    config = {name: f"{value}s" if _is_seconds(name, value) else value for name, value in config.items()}
    words = [f"{flag(name)}={value}" for name, value in config.items() if value is not None]
    world = World(comm)
    world.restart_clock()  # max_walltime and wall_s count from here
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    try:
        stop = StopFlag()
        settings, given = world.on_root(read_settings, words, world.size, world.can_shrink(), world.is_part())
        with contextlib.closing(Trainer(world, settings, given)) as trainer:
            loop(world, trainer, stop)
    finally:
        for number, handler in before.items():
            if handler is not None:  # else it was not set from Python
                signal.signal(number, handler)
    return str(settings.folder)


def _is_seconds(name: str, value: object) -> bool:
    """Whether an interval is a time, as in ``config.json``; a whole number is one of updates."""
    return name.replace("-", "_") == "checkpoint_every" and isinstance(value, float)


def load(run: str, own: Collection[str] = (), greedy: bool = False) -> TrainedPolicy:
    """Load the policy of a run folder's newest good checkpoint, or of a checkpoint file.

    Args:
        own: custom code, ``package.module:name``, of the run that may be imported.
        greedy: whether it takes the most probable action instead of sampling.

    Raises UsageError, or SystemFault if a file cannot be read.
    """
    return TrainedPolicy(find(run, own), greedy=greedy)


def metrics(run: str) -> Columns:
    """Read ``metrics.jsonl``: {name: float64 (updates,)}, NaN where a value is missing or no finite number.

    Seconds of a phase are under ``phase_s.NAME`` and ``phase_max_s.NAME``. Raises UsageError without a line,
    SystemFault if the file cannot be read.
    """
    return read_columns(os.path.join(run, "metrics.jsonl"))[0]
