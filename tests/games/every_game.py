"""Train 1,000 steps of each game of ale-py, and repeat the second half from a checkpoint.

    mpirun -n 2 python tests/games/every_game.py [ALE/Name-v5 ...]

Prints one line of JSON per game. ``same`` is true if the resumed half ends with the same checkpoint. One job runs all
games, because a hundred starts take longer than the training.
"""

import contextlib
import io
import json
import shutil
import sys
import tempfile
from pathlib import Path

from pg_mpi.config.command_line import parse_train
from pg_mpi.env.atari import atari_ids
from pg_mpi.files import checkpoint_folder
from pg_mpi.mpi import process
from pg_mpi.run.trainer import Trainer

ROUNDS, STEPS = 4, 125  # of each of two ranks: 1,000 in all
FLAGS = ["--sync", "steps", "--envs-per-rank", 1, "--num-steps", STEPS, "--minibatch-size", 250]
FLAGS += ["--update-epochs", 1, "--hidden", 16]


def main(world, argv):
    """Try the named games, or all. Collective."""
    for env_id in argv or sorted(atari_ids()):
        folder = world.on_root(tempfile.mkdtemp)
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            found = attempt(world, env_id, Path(folder))
        world.barrier()  # all ranks have read the folder
        if world.rank == 0:
            shutil.rmtree(folder)
            crowded = "hardly apply" in output.getvalue()
            print(json.dumps({"env_id": env_id, **found, "reported_crowded": crowded}), flush=True)
    return 0


def attempt(world, env_id, folder):
    """Train and resume one game. Returns the fields of its JSON line."""
    flags = ["--env-id", env_id, *map(str, FLAGS)]
    trainer = Trainer(world, *parse_train([*flags, "--run-dir", str(folder / "whole")]))
    train(trainer, ROUNDS // 2)
    half = world.on_root(lambda: checkpoint_folder.candidates(str(folder / "whole"))[0])
    last = train(trainer, ROUNDS // 2)
    resumed = Trainer(world, *parse_train([*flags, "--run-dir", str(folder / "resumed"), "--resume", half]))
    train(resumed, ROUNDS // 2)
    checkpoints = [Path(checkpoint_folder.candidates(str(folder / name))[0]) for name in ("whole", "resumed")]
    spec = trainer.env_spec
    return {
        "steps": trainer.counters.env_steps,
        "same": checkpoints[0].name == checkpoints[1].name
        and checkpoints[0].read_bytes() == checkpoints[1].read_bytes(),
        "active": spec.active,
        "colours": spec.scene.colours,
        "actions": len(spec.codes),
        "active_inputs": sum(len(t.observed) for t in last),
    }


def train(trainer, rounds):
    """Train ``rounds`` rounds and save. Returns the last trajectories."""
    for _ in range(rounds):
        trajectories = trainer.play()
        trainer.learn(trajectories)
        trainer.report()
    trainer.save()
    return trajectories


if __name__ == "__main__":
    process.run(main, sys.argv[1:])
