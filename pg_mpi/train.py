"""The training loop: ``mpirun -n N python -m pg_mpi.train``.

Each rank plays its games, gradients are summed over ranks, and every rank takes the same step:

    play → learn (gradient, Allreduce, optimizer) → measure → save when due → agree on whether to stop

On a signal, or when the walltime is over, the partial round is discarded and the state before it is saved.
"""

import contextlib
import functools
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from pg_mpi import STARTED
from pg_mpi.config.command_line import DRY_RUN, parse_dry_run, parse_train, train_parser
from pg_mpi.config.errors import RUN_AGAIN, UsageError
from pg_mpi.config.settings import TrainConfig
from pg_mpi.mpi import process
from pg_mpi.mpi.launch import launch_variables
from pg_mpi.mpi.signals import Stop, StopFlag, Until
from pg_mpi.mpi.watchdog import Watchdog
from pg_mpi.mpi.world import World

if TYPE_CHECKING:
    from pg_mpi.mpi.interface import Collectives
    from pg_mpi.run.counters import Counters
    from pg_mpi.run.trainer import Trainer

FINISHED = 0


def main(world: World, argv: list[str], stop: Stop) -> int:
    """Train with the settings of the command line; returns the exit code. Collective: every rank must call this."""
    config, given = world.on_root(read_settings, argv, world.size, world.can_shrink())
    from pg_mpi.run.trainer import Trainer  # a wrong launch is refused before numpy loads

    dog = Watchdog(config.watchdog, world.rank, world.size, spared=world.can_shrink())
    with contextlib.closing(Trainer(world, config, given)) as trainer:
        return loop(world, trainer, stop, dog.feed)


def loop(world: "Collectives", trainer: "Trainer", stop: Stop, progress: Callable[[], None] = lambda: None) -> int:
    """Update until a budget, a target or a signal. Returns the exit code.

    ``progress()`` is called after each round, and after each game of an evaluation.

    Collective: every rank must call this.
    """
    while True:
        try:
            code = one_round(world, trainer, stop, progress)
        except Exception as error:
            code = None
            if not trainer.survive(error):
                raise
        if code is not None:
            return code
        progress()


def one_round(world: "Collectives", trainer: "Trainer", stop: Stop, progress: Callable[[], None]) -> int | None:
    """Run one update and return None, or finish the run and return the exit code.

    Collective: every rank must call this.
    """
    reason, code = verdict(world, trainer.config, trainer.counters, stop)
    walltime = trainer.config.max_walltime
    until = Until(stop, STARTED + walltime, world.clock) if walltime else stop
    if reason:
        trainer.finish(reason, finished=code == FINISHED, stop=stop)
    elif (trajectories := trainer.play(until)) is not None:
        trainer.learn(trajectories)
        trainer.report()
        trainer.after_update(until, progress)
    return code


def verdict(
    world: "Collectives", config: TrainConfig, counters: "Counters", stop: Stop
) -> tuple[str, int] | tuple[None, None]:
    """Whether to stop: (reason, exit code), or (None, None); the same on all ranks.

    Collective: every rank must call this.
    """
    if config.total_timesteps and counters.env_steps >= config.total_timesteps:
        return f"{counters.env_steps:,} of {config.total_timesteps:,} steps played", FINISHED
    if counters.reached(config.target_return):
        return (
            f"the last 100 games average {counters.return_mean:+.2f}: target {config.target_return:g} reached",
            FINISHED,
        )
    if world.size < config.min_ranks:
        return f"{world.size} ranks are left, fewer than --min-ranks {config.min_ranks}", RUN_AGAIN
    out_of_time = config.max_walltime is not None and world.clock() - STARTED >= config.max_walltime
    signalled, out_of_time = world.any(stop, out_of_time)
    if signalled:
        return "asked to stop by a signal", RUN_AGAIN
    if out_of_time:
        return f"the walltime budget of {config.max_walltime:g} s is spent", RUN_AGAIN
    return None, None


def dry_run(argv: list[str]) -> int:
    """Print what a run would do, need and save; returns the exit code. In one process, without MPI."""
    config, given, asked = parse_dry_run(argv)
    ranks = asked or launch_variables.promised() or 1
    config.check(ranks, given)
    from pg_mpi.run import dry_run

    print("\n".join(dry_run.lines(config, ranks)))
    return FINISHED


def read_settings(argv: list[str], ranks: int, can_shrink: bool, part: bool = False) -> tuple[TrainConfig, set[str]]:
    """Parse the command line and check it against the launch. Returns what ``parse_train`` returns.

    Raises ``UsageError``. ``part``: the ranks may be some of those that the launcher started.
    """
    config, given = parse_train(argv)
    if config.expect_ranks or not part:
        launch_variables.check_launch(ranks, config.expect_ranks)
    if config.elastic and not can_shrink:
        raise UsageError(
            "--elastic needs an MPI that survives failed ranks: use Open MPI 5 and mpirun --with-ft ulfm, as make "
            "train ARGS=--elastic does"
        )
    return config, given


if __name__ == "__main__":
    flag = StopFlag(launch_variables.is_launched())  # first: a signal during the start must not kill the job
    process.answer_help(train_parser, sys.argv[1:])
    if DRY_RUN in sys.argv[1:]:
        process.run_alone(dry_run, sys.argv[1:])
    else:
        process.run(functools.partial(main, stop=flag), sys.argv[1:], check_launch=False)  # with --expect-ranks
