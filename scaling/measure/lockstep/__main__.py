"""Measure the cost of slow steps in three ways of driving environments: ``python -m scaling.measure.lockstep``."""

import json
import os
import sys
import tempfile

import numpy as np

from pg_mpi.config.errors import UsageError
from pg_mpi.config.parsers import Parser, checked, integer, real
from pg_mpi.files.csv_table import write_csv
from pg_mpi.files.figure_file import picture
from pg_mpi.files.run_folder import write_json
from pg_mpi.mpi.launch import mpirun
from scaling import cli
from scaling.measure import timed_run
from scaling.measure.lockstep.times import TALK, WAYS, Times, ideal
from scaling.pictures import timeline

KIND = ("lockstep", 1)
MOST, LONGEST = 100_000, 60_000.0  # environments or steps; milliseconds


def parser():
    """Create the argument parser."""
    p = Parser(
        prog="python -m scaling.measure.lockstep",
        description="Drive environments whose step takes 3 ms and sometimes 100 ms, one per rank, in three ways: all "
        "in lock-step, as vector environments; each independently until the update, as batched rollouts; and in "
        "lock-step within each of several workers. Reports milliseconds per step and the idle share.",
        epilog="A step is a sleep, which needs no core, so there can be more ranks than cores. All ways play the same "
        "step times. The command starts its own ranks: run it without mpirun.",
        allow_abbrev=False,
    )
    p.add_argument("--envs", metavar="N", default="8", help="environments, one per rank (default: 8)")
    p.add_argument("--workers", metavar="W", default="2", help="groups of the hybrid (default: 2)")
    p.add_argument("--steps", metavar="T", default="200", help="steps of each one until the update (default: 200)")
    p.add_argument("--usual", metavar="MS", default="3", help="milliseconds of a usual step (default: 3)")
    p.add_argument("--slow", metavar="MS", default="100", help="milliseconds of a slow step (default: 100)")
    p.add_argument("--chance", metavar="P", default="0.028", help="probability of a slow step (default: 0.028, which "
                   "makes one in five steps of a vector of 8 slow, as in the talk)")  # fmt: skip
    p.add_argument("--gaussian", metavar="MS", help="normal step times about --usual with this deviation instead")
    p.add_argument("--seed", metavar="S", default="0", help="seed of the step times (default: 0)")
    p.add_argument("--shown", metavar="K", default="40", help="steps in the figure (default: 40)")
    p.add_argument("--out", metavar="FOLDER", help="also write lockstep.json, .csv and .png there (extra: plot)")
    p.add_argument("--json", action="store_true", help="also print the result as a last line of JSON")
    return p


def prepare(argv):
    """Parse and check a command line: (args, ``Times``). Raises ``UsageError``."""
    args = parser().parse(argv)
    for name in ("envs", "workers", "steps", "shown"):
        setattr(args, name, checked(integer(1, MOST), getattr(args, name), f"--{name}"))
    args.seed = checked(integer(0), args.seed, "--seed")
    if args.workers > args.envs:
        raise UsageError(f"--workers {args.workers} cannot share {args.envs} environments: give more --envs or fewer")
    usual, slow = (checked(real(0, LONGEST, open_low=True), getattr(args, n), f"--{n}") for n in ("usual", "slow"))
    chance = checked(real(0, 1), args.chance, "--chance")
    deviation = checked(real(0, LONGEST, open_low=True), args.gaussian, "--gaussian") if args.gaussian else 0.0
    return args, Times(usual, slow, chance, deviation)


def main(argv):
    """Measure and report. Returns the exit code."""
    cli.refuse_mpirun()
    args, times = prepare(argv)
    if args.out:
        cli.claim(args.out, "lockstep.json", "scaling.measure.lockstep", argv)
    with tempfile.TemporaryDirectory(prefix="lockstep-") as folder:
        start = mpirun.mpirun_command(args.envs) if args.envs > 1 else []
        code, *_ = timed_run.run(
            [*start, sys.executable, "-m", "scaling.measure.lockstep.ranks", folder, *argv], told=True
        )
        if code:
            return code
        with open(os.path.join(folder, "measured.json"), encoding="utf-8") as file:
            measured = json.load(file)
    durations = np.stack([times.draw(env, args.steps, args.seed) for env in range(args.envs)])
    rows = [row(way, measured[way], durations, args.workers) for way in WAYS]
    result = {
        "rows": rows,
        "mean_step_ms": float(1e3 * durations.mean()),
        "slow_vectors": float(np.mean((durations > 2e-3 * times.usual).any(axis=0))),
        "envs": args.envs,
        "workers": args.workers,
        "steps": args.steps,
        "times": vars(times),
        **cli.facts("scaling.measure.lockstep", argv),
    }
    print(table(result), flush=True)
    if args.out:
        write_json(os.path.join(args.out, "lockstep.json"), result)
        facts = cli.facts("scaling.measure.lockstep", argv)
        write_csv(os.path.join(args.out, "lockstep.csv"), *KIND, rows, facts)
        spans = {way: [each["spans"] for each in measured[way]] for way in WAYS}
        picture(timeline.draw_lockstep, os.path.join(args.out, "lockstep.png"), rows, spans)
    if args.json:
        print(json.dumps(result), flush=True)
    return 0


def row(way, ranks, durations, workers):
    """One way: milliseconds per step of each environment, idle share, and the ideal without overhead."""
    seconds, steps = max(rank["seconds"] for rank in ranks), durations.shape[1]
    return {
        "way": way,
        "ms_per_step": 1e3 * seconds / steps,
        "ideal_ms_per_step": 1e3 * ideal(way, durations, workers) / steps,
        "idle": 1 - sum(rank["stepping"] for rank in ranks) / (seconds * len(ranks)),
        "talk_ms_per_step": TALK[way][0],
    }


def table(result):
    """Format the result as text."""
    lines = [
        f"{result['envs']} environments, {result['steps']} steps each, {result['mean_step_ms']:.1f} ms a step on "
        f"average; {result['slow_vectors']:.0%} of the vector steps contain a slow one; hybrid: "
        f"{result['workers']} workers",
        "",
        f"{'':<13}{'ms/step':>9}{'ideal':>8}{'idle':>8}{'talk':>8}   the talk assumes",
    ]
    for each in result["rows"]:
        lines.append(
            f"{each['way']:<13}{each['ms_per_step']:>9.1f}{each['ideal_ms_per_step']:>8.1f}{each['idle']:>8.1%}"
            f"{each['talk_ms_per_step']:>8.0f}   {TALK[each['way']][1]}"
        )
    first, *rest = result["rows"]
    lines += [""] + [
        f"{each['way']} is {first['ms_per_step'] / each['ms_per_step']:.1f} times as fast as lock-step" for each in rest
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    cli.run(main)
