"""Tune settings on groups of ranks: ``mpirun -n 8 python -m pg_mpi.tune --ranks-per-trial 2 --space space.toml``."""

import contextlib
import dataclasses
import functools
import json
import sys
import time
from collections.abc import Callable
from typing import Any, cast

from pg_mpi.config.command_line import parse_train
from pg_mpi.config.errors import RunError, UsageError
from pg_mpi.config.parsers import Parser, check_extra, duration, integer
from pg_mpi.config.presets import env_defaults
from pg_mpi.config.settings import TrainConfig
from pg_mpi.files.csv_table import make_folder
from pg_mpi.files.provenance import facts_of
from pg_mpi.files.run_folder import output_of
from pg_mpi.mpi import process
from pg_mpi.mpi.launch import launch_env
from pg_mpi.mpi.signals import Stop, StopFlag
from pg_mpi.mpi.watchdog import Watchdog
from pg_mpi.mpi.world import World
from pg_mpi.tune import space, study

REFUSED = {"run_dir", "resume", "total_timesteps", "max_walltime", "target_return", "expect_ranks"}
REFUSED |= {"track", "trace", "elastic", "min_ranks"}
FINISHED, AGAIN = 0, 75


def parser() -> Parser:
    """Return the command-line parser."""
    p = Parser(
        prog="python -m pg_mpi.tune",
        description="Tune settings of the trainer. The ranks of the job are split into groups; each group trains with "
        "settings that Optuna proposes until the budget is spent. Trials that are behind others after 1/8, 1/4 or 1/2 "
        "of it are pruned (successive halving). Several jobs may work on one study, and the same command resumes an "
        "interrupted one. Exit codes as the trainer's: 75 means run me again.",
        epilog="A space is a TOML file with a table for each setting to try, as [learning_rate] with low = 1e-4, "
        "high = 3e-3 and log = true; [num_steps] with low = 128, high = 512 and step = 128; [hidden] with choices = "
        "[32, 64]. Every other flag is one of pg_mpi.train, for all trials. Next to FILE.journal, FILE.trials "
        "holds a run folder for each trial, trials.csv, study.png (extra: plot), and best.json for --preset.",
    )
    p.add_argument("--space", metavar="FILE", required=True, help="the settings to try, see below")
    journal = "the study's journal (default: %(default)s)"
    p.add_argument("--study", metavar="FILE", default="tune.journal", help=journal)
    trials = "trials of the study, over all jobs (default: %(default)s)"
    p.add_argument("--trials", metavar="N", type=integer(), default="32", help=trials)
    budget = "training time of a trial (default: %(default)s)"
    p.add_argument("--budget", metavar="TIME", type=duration, default="00:02:00", help=budget)
    p.add_argument("--ranks-per-trial", metavar="K", type=integer(), default="1", help="ranks of a group (default: 1)")
    p.add_argument("--max-walltime", metavar="TIME", type=duration, help="checkpoint and exit 75 after this time")
    p.add_argument("--json", action="store_true", help="print one line of JSON, last")
    return p


@dataclasses.dataclass(frozen=True)
class Plan:
    """The parsed command line. ``config`` and ``given`` are the trainer's and apply to all trials."""

    config: TrainConfig
    given: set[str]
    dimensions: list[space.Dimension]
    study: str
    trials: int
    budget: float
    ranks_per_trial: int
    max_walltime: float | None
    json: bool


def main(world: World, argv: list[str], stop: Stop) -> int:
    """Run the study and return the exit code. Collective: every rank must call this."""
    plan: Plan = world.on_root(_plan, argv, world.size)
    from pg_mpi.tune.board import Board  # imported after the checks

    dog = Watchdog(plan.config.watchdog, world.rank, world.size)
    group = world.group(world.rank // plan.ranks_per_trial)
    ours = study.Study(plan.study, plan.dimensions, plan.trials, plan.config.seed) if group.rank == 0 else None
    board = Board(cast(study.Study, ours), plan.trials) if world.rank == 0 else None

    def progress() -> None:
        dog.feed()
        show()

    def show() -> None:
        if board:
            with contextlib.suppress(Exception):  # a display error must not fail a trial
                board.refresh()

    stopped = work(group, ours, plan, Until(stop, plan.max_walltime), progress)
    last = time.monotonic() + plan.budget  # no trial that is being played takes longer

    def wait() -> None:
        """Let the watchdog end a job with a rank that does not come back."""
        progress() if time.monotonic() < last else show()

    world.meet(wait)
    (stopped,) = world.any(stopped)
    return cast(int, world.on_root(_close, board, plan, argv, world.size, stopped))


class Until:
    """Stop flag that is also set once the walltime is over."""

    def __init__(self, stop: Stop, seconds: float | None) -> None:
        self._stop, self._end = stop, None if seconds is None else time.monotonic() + seconds

    def __bool__(self) -> bool:
        return bool(self._stop) or self._late()

    def _late(self) -> bool:
        return self._end is not None and time.monotonic() > self._end

    def age(self) -> float:
        return self._stop.age()

    def reason(self) -> str | None:
        """Reason to stop, or None."""
        return self._stop.reason() or ("the walltime is over" if self._late() else None)


def work(group: World, ours: study.Study | None, plan: Plan, stop: Until, progress: Callable[[], None]) -> bool:
    """Play trials until none is left; return whether it was stopped. Collective in the group."""
    from pg_mpi.tune import trial

    while not group.any(stop.reason() is not None)[0]:
        task: study.Task | None = group.on_root(cast(Any, ours.next_task if ours else None))
        if task is None:
            return False
        config = dataclasses.replace(plan.config, run_dir=task.folder, keep_checkpoints=1, **space.parsed(task.params))
        with output_of(task.folder if ours else None) as output:
            report = ours.report if ours else None
            outcome = trial.play(
                group, config, plan.given | task.params.keys(), plan.budget, stop, report, progress, output
            )
        if outcome.state == trial.STOPPED:
            return True
        group.on_root(cast(Any, ours.tell if ours else None), outcome.state, outcome.score, outcome.why)
        progress()
    return True


def _plan(argv: list[str], ranks: int) -> Plan:
    args, rest = parser().parse_known_args(argv)
    config, given = parse_train(rest)
    usual = TrainConfig()
    if refused := [name for name in sorted(REFUSED) if getattr(config, name) != getattr(usual, name)]:
        flag = f"--{refused[0].replace('_', '-')}"
        raise UsageError(f"{flag} does not apply here, on the command line or in a preset: each trial has its own")
    check_extra("optuna", "tune", "tuning")
    dimensions = space.read(args.space)
    if twice := [dimension.name for dimension in dimensions if dimension.name in given]:
        raise UsageError(f"{twice[0]} is in {args.space} and on the command line: leave one out")
    if ranks % args.ranks_per_trial:
        raise UsageError(f"{ranks} ranks make no groups of {args.ranks_per_trial}: give a divisor")
    from pg_mpi.env import registry

    registry.check(config)
    if not {"num_steps", "envs_per_rank", "minibatch_size", "sync", "method"} & {each.name for each in dimensions}:
        config.check(args.ranks_per_trial, given)
    make_folder(study.folder_of(args.study), "--study")
    same = config.identity() | {"budget": args.budget, "space": [str(dimension) for dimension in dimensions]}
    study.Study(args.study, dimensions, args.trials, config.seed).check_same(same)
    words = vars(args)
    del words["space"]
    return Plan(config, given, dimensions, **words)


def _close(board: Any, plan: Plan, argv: list[str], ranks: int, stopped: bool) -> int:
    facts = facts_of("pg_mpi.tune", argv, ranks)
    rows: list[study.Row] = board.close(functools.partial(preset_of, plan), facts)
    states = [row.state for row in rows]
    if stopped:
        print("stopped: run the same command again to resume", flush=True)
    if plan.json:
        print(json.dumps({"stopped": stopped, "trials": [dataclasses.asdict(row) for row in rows]}), flush=True)
    if stopped:
        return AGAIN
    if rows and "complete" not in states and "running" not in states:
        raise RunError(f"none of {len(states)} trials was completed: {rows[-1].why or 'all were pruned'}")
    return FINISHED


def preset_of(plan: Plan, params: dict[str, Any]) -> dict[str, Any]:
    """Return a trial's settings that differ from its environment's defaults, as a preset file holds them."""
    chosen = dataclasses.replace(plan.config, **space.parsed(params))
    known = TrainConfig(**env_defaults(chosen.env_id)).identity() | {"seed": chosen.seed, "env_id": TrainConfig.env_id}
    return {name: value for name, value in chosen.identity().items() if value != known[name]}


if __name__ == "__main__":
    flag = StopFlag(launch_env.is_launched())
    process.run(functools.partial(main, stop=flag), sys.argv[1:], parser=parser)
