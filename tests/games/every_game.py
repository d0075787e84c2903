"""Each game that ale-py ships, on the ranks of this job: 1,000 steps, and the second half once more from a checkpoint.

    mpirun -n 2 python tests/games/every_game.py [ALE/Name-v5 ...]

One line of JSON a game; ``same`` is true where the resumed half ended with the same bytes. One job for all of them, for
starting a hundred takes longer than playing.
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
from pg_mpi.files import checkpoint_file
from pg_mpi.mpi import process
from pg_mpi.run.trainer import Trainer

ROUNDS, STEPS = 4, 125  # of each of two ranks: 1,000 in all
FLAGS = [
    "--sync",
    "steps",
    "--envs-per-rank",
    1,
    "--num-steps",
    STEPS,
    "--minibatch-size",
    250,
    "--update-epochs",
    1,
    "--hidden",
    16,
]


def main(world, argv):
    """Try the games that are named, or all. Collective."""
    for env_id in argv or sorted(atari_ids()):
        place = world.on_root(tempfile.mkdtemp)
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            found = attempt(world, env_id, Path(place))
        world.barrier()  # all have read what rank 0 is about to remove
        if world.rank == 0:
            shutil.rmtree(place)
            crowded = "hardly apply" in said.getvalue()
            print(json.dumps({"env_id": env_id, **found, "says_crowded": crowded}), flush=True)
    return 0


def attempt(world, env_id, place):
    """What came of one game: a dict."""
    flags = ["--env-id", env_id, *map(str, FLAGS)]
    trainer = Trainer(world, *parse_train([*flags, "--run-dir", str(place / "whole")]))
    play(trainer, ROUNDS // 2)
    half = world.on_root(lambda: checkpoint_file.candidates(str(place / "whole"))[0])
    last = play(trainer, ROUNDS // 2)
    again = Trainer(world, *parse_train([*flags, "--run-dir", str(place / "again"), "--resume", half]))
    play(again, ROUNDS // 2)
    ends = [Path(checkpoint_file.candidates(str(place / name))[0]) for name in ("whole", "again")]
    known = trainer._env_spec
    return {
        "steps": trainer.counters.env_steps,
        "same": ends[0].name == ends[1].name and ends[0].read_bytes() == ends[1].read_bytes(),
        "active": known.active,
        "colours": known.scene.colours,
        "actions": len(known.codes),
        "seen": sum(len(t.observed) for t in last),
    }


def play(trainer, rounds):
    """Train for so many updates, and save; the trajectories of the last one."""
    for _ in range(rounds):
        trajectories = trainer.play()
        trainer.learn(trajectories)
        trainer.report()
    trainer.save()
    return trajectories


if __name__ == "__main__":
    process.run(main, sys.argv[1:])
