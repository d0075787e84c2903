"""The multi-armed testbed of Sutton & Barto on any number of ranks: ``python -m pg_mpi.bandit``."""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from pg_mpi.bandit import pictures, plan, testbed
from pg_mpi.bandit.testbed import Task
from pg_mpi.config.errors import UsageError, counted
from pg_mpi.config.parsers import Parser, integer, real
from pg_mpi.files.csv_table import make_folder, write_csv
from pg_mpi.files.figure_file import picture
from pg_mpi.files.provenance import command_line, facts_of
from pg_mpi.mpi import process
from pg_mpi.mpi.thread_pinning import pin_threads
from pg_mpi.mpi.world import World

CURVES, STUDY = ("bandit", 1), ("bandit-study", 1)
MOST_SQUARES = 2.0**31  # limit of squared rewards summed over runs, for exact sums: see learning/reproducible_sum.py
LAST = 100  # steps that count as "in the end"


def parser() -> Parser:
    """Return the command-line parser."""
    kinds = ", ".join(f"{name}:{kind.symbol}" for name, kind in plan.KINDS.items())
    p = Parser(
        prog="python -m pg_mpi.bandit",
        description="Play many random k-armed bandits with several methods, all on the same tasks and random numbers, "
        "and print how much reward each gets, with 95 % intervals, and how often it pulls the best arm. Chapter 2 of "
        "Sutton and Barto's book, on any number of ranks (mpirun -n N in front), with the same results.",
        epilog=f"Methods: {kinds}. Options, after commas: step=S for a constant step size and start=Q for the first "
        "estimates (epsilon, ucb), step=S (optimistic, else 0.1), baseline=false (gradient). For example: --methods "
        "epsilon:0.1,step=0.1 gradient:0.4",
    )
    usual = " ".join(plan.USUAL)
    p.add_argument("--methods", metavar="M", nargs="+", type=plan.parse, help=f"methods to compare (default: {usual})")
    p.add_argument("--study", action="store_true", help="try several values of each method's parameter (figure 2.6)")
    p.add_argument("--arms", metavar="K", type=integer(2), default="10", help="arms of a bandit")
    p.add_argument("--runs", metavar="R", type=integer(), default="2000", help="bandits played, over all ranks")
    p.add_argument("--steps", metavar="T", type=integer(), default="1000", help="steps of each")
    p.add_argument("--mean", metavar="M", type=real(), default="0", help="mean reward of the arms")
    drift = "deviation of a step of the means' random walk; they begin equal"
    p.add_argument("--drift", metavar="D", type=real(0), default="0", help=drift)
    p.add_argument("--seed", type=integer(0), default="0", help="root of the random streams")
    p.add_argument("--out", metavar="FOLDER", help="also write CSV files and pictures there (pictures: extra plot)")
    p.add_argument("--json", action="store_true", help="print one line of JSON, last")
    return p


def main(world: World, argv: list[str]) -> int:
    """Play the testbed and print the results. Collective: every rank must call this."""
    args, task, methods = world.on_root(_prepare, argv)
    pin_threads()
    begun = time.monotonic()
    mine = range(world.rank * task.runs // world.size, (world.rank + 1) * task.runs // world.size)
    sums = testbed.play(task, methods, mine)
    for each in sums:
        world.sum_(each.values)
    results = [Result(method, *each.means(task.runs)) for method, each in zip(methods, sums)]
    if world.rank == 0:
        _print_result(args, argv, task, results, world.size, begun)
    return 0


class Result(NamedTuple):
    """Results of a method: (mean, 95 % half-width) pairs of ``reward`` and ``optimal`` by step, and of ``whole``."""

    method: plan.Method
    reward: tuple[Any, Any]
    optimal: tuple[Any, Any]
    whole: tuple[float, float]

    def summary(self) -> dict[str, Any]:
        """Return a JSON-able dict. ``*_end`` are means over the last ``LAST`` steps."""
        reward, optimal = self.reward[0][-LAST:], self.optimal[0][-LAST:]
        return {
            "method": self.method.name,
            "reward": self.whole[0],
            "reward_end": float(reward.mean()),
            "optimal_end": float(optimal.mean()),
        }


def _prepare(argv: list[str]) -> tuple[argparse.Namespace, Task, list[plan.Method]]:
    args = parser().parse(argv)
    task = Task(args.arms, args.runs, args.steps, args.seed, args.mean, args.drift)
    if args.study and args.methods:
        raise UsageError("--study has methods of its own: leave --methods or --study away")
    methods = plan.study() if args.study else args.methods or list(map(plan.parse, plan.USUAL))
    reach = abs(task.mean) + task.drift * task.steps + 10
    if task.runs * reach * reach > MOST_SQUARES:  # reach**2 raises OverflowError
        raise UsageError("the rewards' squares would be too large for exact sums: lower --runs, --mean or --drift")
    if args.out:
        make_folder(args.out)
    return args, task, methods


def _print_result(
    args: argparse.Namespace, argv: list[str], task: Task, results: Sequence[Result], ranks: int, begun: float
) -> None:
    seconds = time.monotonic() - begun
    walk = f", which begin equal and walk by {task.drift:g} a step" if task.drift else ""
    print(
        f"{task.runs:,} bandits of {task.arms} arms{walk}, {task.steps:,} steps each, seed {task.seed}, "
        f"{counted(ranks, 'rank')}"
    )
    print(f"{'method':<30}{'reward, mean of all steps':>28}{'in the end':>13}{'best arm in the end':>22}")
    for result in results:
        found = result.summary()
        print(
            f"{found['method']:<30}{found['reward']:>20.4f} ± {result.whole[1]:.4f}{found['reward_end']:>13.3f}"
            f"{found['optimal_end']:>22.1%}"
        )
    print(f"{seconds:.1f} s", flush=True)
    if args.out:
        _keep(args, argv, task, results, ranks)
    if args.json:
        summaries = [result.summary() for result in results]
        head = task._asdict() | {"ranks": ranks, "seconds": seconds}
        print(json.dumps(head | {"methods": summaries}), flush=True)


def _keep(args: argparse.Namespace, argv: list[str], task: Task, results: Sequence[Result], ranks: int) -> None:
    facts = facts_of(command_line("pg_mpi.bandit", argv)) | {"ranks": ranks} | task._asdict()
    names = ("reward", "reward_half_width", "optimal", "optimal_half_width")
    rows = [
        {"step": step + 1, "method": r.method.name, **dict(zip(names, map(float, numbers)))}
        for r in results
        for step, numbers in enumerate(zip(*r.reward, *r.optimal))
    ]
    write_csv(f"{args.out}/curves.csv", *CURVES, rows, facts)
    columns = ("method", "kind", "value", "reward", "half_width")
    rows = [dict(zip(columns, (r.method.name, r.method.kind, r.method.value, *r.whole))) for r in results]
    write_csv(f"{args.out}/means.csv", *STUDY, rows, facts)
    name, draw = ("study", pictures.draw_study) if args.study else ("curves", pictures.draw_curves)
    drawn = picture(draw, f"{args.out}/{name}.png", results, task)
    print(f"written: {args.out}/curves.csv, {args.out}/means.csv{f', {drawn}' if drawn else ''}")


if __name__ == "__main__":
    process.run(main, sys.argv[1:], optional_mpi=True, parser=parser)
