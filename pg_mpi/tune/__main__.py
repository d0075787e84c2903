"""Tune settings on groups of ranks: ``mpirun -n 8 python -m pg_mpi.tune --ranks-per-trial 2 --space space.toml``."""

import argparse
import contextlib
import dataclasses
import functools
import json
import math
import os
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple, cast

from pg_mpi import STARTED
from pg_mpi.config.command_line import parse_train, refuse
from pg_mpi.config.errors import RUN_AGAIN, RunError, UsageError
from pg_mpi.config.parsers import Parser, check_extra, duration, integer
from pg_mpi.config.presets import env_defaults
from pg_mpi.config.settings import TrainConfig, inapplicable
from pg_mpi.files.atomic_file import is_folder
from pg_mpi.files.csv_table import make_folder
from pg_mpi.files.provenance import command_line, facts_of
from pg_mpi.files.run_folder import output_of
from pg_mpi.mpi import process
from pg_mpi.mpi.launch import launch_variables
from pg_mpi.mpi.signals import Stop, StopFlag, Until
from pg_mpi.mpi.watchdog import Watchdog
from pg_mpi.mpi.world import World
from pg_mpi.tune import space, study

REFUSED = {"run_dir", "resume", "total_timesteps", "max_walltime", "target_return", "expect_ranks"}
REFUSED |= {"track", "trace", "elastic", "min_ranks"}


def parser() -> Parser:
    """Return the command-line parser."""
    p = Parser(
        prog="python -m pg_mpi.tune",
        description="Tune settings of the trainer. The ranks of the job are split into groups; each group trains with "
        "settings that Optuna proposes until the budget is spent. Trials that are behind others after 1/8, 1/4 or 1/2 "
        "of it are pruned (successive halving). Several jobs may work on one study, and the same command resumes an "
        "interrupted one. Exit codes as the trainer's: 75 means to run the same command again.",
        epilog="A space is a TOML file with a table for each setting to try, as [learning_rate] with low = 1e-4, "
        "high = 3e-3 and log = true; [num_steps] with low = 128, high = 512 and step = 128; [hidden] with choices = "
        "[32, 64]. Every other flag is one of pg_mpi.train, for all trials. Next to FILE.journal, FILE.trials "
        "holds a run folder for each trial, trials.csv, study.png (extra: plot), and best.json for --preset.",
    )
    p.add_argument("--space", metavar="FILE", required=True, help="the settings to try, see below")
    p.add_argument("--study", metavar="FILE", default="tune.journal", help="the study's journal")
    p.add_argument("--trials", metavar="N", type=integer(), default="32", help="trials of the study, over all jobs")
    p.add_argument("--budget", metavar="TIME", type=duration, default="00:02:00", help="training time of a trial")
    p.add_argument("--ranks-per-trial", metavar="K", type=integer(), default="1", help="ranks of a group")
    p.add_argument("--max-walltime", metavar="TIME", type=duration, help="checkpoint and exit 75 after this time")
    p.add_argument("--json", action="store_true", help="print one line of JSON, last")
    return p


class Plan(NamedTuple):
    """The parsed command line. ``config`` and ``given`` are the trainer's and apply to all trials."""

    args: argparse.Namespace
    config: TrainConfig
    given: set[str]
    dimensions: dict[str, space.Options]


def main(world: World, argv: list[str], stop: Stop) -> int:
    """Run the study and return the exit code. Collective: every rank must call this."""
    plan: Plan = world.on_root(_plan, argv, world.size)
    from pg_mpi.tune.board import Board  # imported after the checks

    dog = Watchdog(plan.config.watchdog, world.rank, world.size)
    args = plan.args
    group = world.group(world.rank // args.ranks_per_trial)
    ours = study.Study(args.study, plan.dimensions, args.trials, plan.config.seed) if group.rank == 0 else None
    board = Board(cast(study.Study, ours), args.trials) if world.rank == 0 else None
    fed_until = math.inf

    def progress() -> None:
        if time.monotonic() < fed_until:
            dog.feed()
        if board:
            with contextlib.suppress(Exception):  # a display error must not fail a trial
                board.refresh()

    try:
        stopped = work(group, ours, plan, Until(stop, STARTED + (args.max_walltime or math.inf)), progress)
        unfinished = group.on_root(cast(Any, ours.unfinished if ours else None))
    except Exception as error:
        cast(Any, error).agreed = False  # known to all ranks of a group, but not to the other groups: the job ends
        raise
    # One of the other groups may play all unfinished trials, those of other jobs that end too. Each ends within a
    # budget. Then the watchdog is no longer fed, so it ends a job in which a rank hangs.
    fed_until = time.monotonic() + (1 + unfinished) * args.budget
    world.meet(progress)
    (stopped,) = world.any(stopped)
    return cast(int, world.on_root(_close, board, plan, argv, world.size, stopped))


def work(group: World, ours: study.Study | None, plan: Plan, stop: Until, progress: Callable[[], None]) -> bool:
    """Play trials until none is left; return whether it was stopped.

    Collective: every rank of ``group`` must call this.
    """
    from pg_mpi.tune import trial

    while not group.any(stop)[0]:
        task: study.Task | None = group.on_root(cast(Any, ours.next_task if ours else None))
        if task is None:
            return False
        config = dataclasses.replace(plan.config, run_dir=task.folder, keep_checkpoints=1, **space.parsed(task.params))
        judge = trial.Judge(plan.args.budget, ours.report if ours else None)
        with output_of(task.folder if ours else None) as output, contextlib.redirect_stdout(output):
            outcome = trial.play(group, config, plan.given | task.params.keys(), judge, stop, progress)
        if outcome.state == trial.STOPPED:
            return True
        group.on_root(cast(Any, ours.tell if ours else None), *outcome)
        progress()
    return True


def _plan(argv: list[str], ranks: int) -> Plan:
    args, rest = parser().parse_known_args(argv)
    config, given = parse_train(rest)
    refuse(config, REFUSED)
    check_extra("optuna", "tune", "tuning")
    dimensions = space.read(args.space)
    if twice := dimensions.keys() & given:
        raise UsageError(f"{min(twice)} is in {args.space} and on the command line: leave one out")
    if ranks % args.ranks_per_trial:
        raise UsageError(
            f"{ranks} ranks make no groups of {args.ranks_per_trial}: give a --ranks-per-trial that divides {ranks}"
        )
    from pg_mpi.env import registry

    registry.check(config)
    if not {"sync", "method"} & dimensions.keys():
        for name in sorted(inapplicable(config).keys() & dimensions.keys()):
            raise UsageError(f"{name} in {args.space} has no effect {inapplicable(config)[name]}: leave it out")
    if not {"num_steps", "envs_per_rank", "minibatch_size", "sync", "method"} & dimensions.keys():
        config.check(args.ranks_per_trial, given)
    if is_folder(args.study):
        within = os.path.join(args.study, "tune.journal")
        raise UsageError(f"--study {args.study} is a folder: give a file, as {within}")
    make_folder(study.folder_of(args.study), "--study")
    same = config.identity() | {"budget": args.budget, "space": dimensions, "ranks_per_trial": args.ranks_per_trial}
    study.Study(args.study, dimensions, args.trials, config.seed).check_same(same)
    return Plan(args, config, given, dimensions)


def _close(board: Any, plan: Plan, argv: list[str], ranks: int, stopped: bool) -> int:
    facts = facts_of(command_line("pg_mpi.tune", argv)) | {"ranks": ranks}
    rows: list[study.Row] = board.close(functools.partial(preset_of, plan), facts)
    if stopped:
        board.say("stopped: run the same command again to resume")
    if plan.args.json:
        line = json.dumps({"stopped": stopped, "trials": [row._asdict() for row in rows]})
        board.say(line) if stopped else print(line, flush=True)
    if stopped:
        return RUN_AGAIN
    why = next((row.why for row in reversed(rows) if row.why), "all were pruned")
    if rows and not {"complete", "running"} & {row.state for row in rows}:
        raise RunError(f"none of {len(rows)} trials was completed: {why}")
    return 0


def preset_of(plan: Plan, params: dict[str, Any]) -> dict[str, Any]:
    """Return a trial's settings that differ from its environment's defaults, as a preset file holds them."""
    chosen = dataclasses.replace(plan.config, **space.parsed(params))
    known = TrainConfig(**env_defaults(chosen.env_id)).identity() | {"seed": chosen.seed, "env_id": TrainConfig.env_id}
    return {name: value for name, value in chosen.identity().items() if value != known[name]}


if __name__ == "__main__":
    signals = StopFlag(launch_variables.is_launched())
    process.run(functools.partial(main, stop=signals), sys.argv[1:], parser=parser)
