"""Evaluation while a run goes on, and its best checkpoint: ``--evaluate-every``."""

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from pg_mpi.config.errors import RunError, UsageError, described, system_faults, warn
from pg_mpi.config.settings import TrainConfig
from pg_mpi.env.interface import EnvSpec
from pg_mpi.files.atomic_file import exists, keep_copy, read_list, write_json
from pg_mpi.mpi.interface import Collectives
from pg_mpi.policy.interface import Policy
from pg_mpi.run.trained_policy import SavedPolicy, TrainedPolicy

NAME = "evaluations.json"
GAMES = 20  # over all ranks
#: Other games than those of pg_mpi.evaluate: the best score is biased upwards on the games that chose it.
FIRST_GAME = 1_000_000
KEYS: dict[str, Callable[[Any], Any]] = {"checkpoint": os.path.basename, "env_steps": int, "score": float, "games": int}


def read(folder: str) -> list[dict[str, Any]]:
    """The evaluations of a run, oldest first: ``checkpoint`` (a file name), ``env_steps``, ``score``, ``games``.

    Empty if there is no such file or it is damaged. Raises ``SystemFault``.
    """
    path = os.path.join(folder, NAME)
    return read_list(path, lambda rows: [{name: kind(row[name]) for name, kind in KEYS.items()} for row in rows])


def best(folder: str) -> str | None:
    """The path of the checkpoint with the highest score, the newest of equals; None if no evaluated one exists."""
    ordered = sorted(read(folder), key=lambda each: (each["score"], each["env_steps"]), reverse=True)
    paths = (os.path.join(folder, "checkpoints", each["checkpoint"]) for each in ordered)
    return next(filter(exists, paths), None)


def best_checkpoint(folder: str) -> str:
    """The path of the best checkpoint of a run. Raises ``UsageError`` if no evaluated one exists."""
    if path := best(folder):
        return path
    remedy = "train with --evaluate-every, or leave --best out"
    raise UsageError(f"{folder} has no checkpoint with a score in {NAME}: {remedy}")


def evaluate(
    world: Collectives,
    config: TrainConfig,
    env_spec: EnvSpec,
    policy: Policy,
    stop: object = False,
    progress: Callable[[], None] = lambda: None,
) -> float | None:
    """Play ``GAMES`` full games, the same ones each time, and return their mean score.

    None if ``stop`` became true, or if an emulator failed, with a warning. No random stream of the training is used.
    ``progress()`` is called after each game of this rank. Collective: every rank must call this.
    """
    weights = {"theta": policy.theta} | ({"running_norm": policy.norm.state} if policy.norm else {})
    player = TrainedPolicy(SavedPolicy("", 0, config, env_spec, weights))
    total, failed = np.zeros(1), False
    for game in range(FIRST_GAME + world.rank, FIRST_GAME + GAMES, world.size):
        if stop or failed:
            break
        try:
            total += player.play(game, config.seed, stop=stop)[0]
        except (UsageError, RunError, MemoryError):
            raise
        except Exception as error:  # any: an emulator is a large C++ program
            if not env_spec.sparse:
                raise  # as in training
            warn(f"an emulator failed ({described(error)}): this evaluation is left out")
            failed = True
        progress()
    return None if any(world.any(stop, failed)) else float(world.sum_(total)[0]) / GAMES


def add(folder: str, checkpoint: str, env_steps: int, score: float, games: int) -> bool:
    """Add an evaluation to the file; returns whether it is the best so far. Rank 0 only. Raises ``SystemFault``."""
    new = {"checkpoint": os.path.basename(checkpoint), "env_steps": env_steps, "score": score, "games": games}
    path, earlier = os.path.join(folder, NAME), read(folder)
    with system_faults(f"{path} cannot be written"):
        if not earlier and exists(path):
            keep_copy(path, "the evaluations begin again")
        write_json(path, [*(e for e in earlier if e["env_steps"] < env_steps), new])
    return best(folder) == checkpoint
