"""Measure the cost of a training flag: ``python -m scaling.measure.cost --of=--trace --ranks 2``."""

import json
import os
import shlex
import sys

import numpy as np
from scipy import stats

from pg_mpi.config.command_line import parse_train
from pg_mpi.config.parsers import Parser, checked, integer
from pg_mpi.files.csv_table import write_csv
from scaling import cli
from scaling.measure import timed_run

KIND = ("cost", 1)
REFUSED = {"run_dir", "resume", "max_walltime", "target_return", "expect_ranks", "total_timesteps"}
PATIENCE = 600.0  # seconds


def parser():
    """Create the argument parser."""
    p = Parser(
        prog="python -m scaling.measure.cost",
        description="Train with and without some flags in turns, for the same number of steps from the same seed, and "
        "report the ratio of the times with its 95 % interval. The command starts its own ranks: run it without "
        "mpirun.",
        epilog="All other flags are those of pg_mpi.train and apply to all runs. Times are measured from the end of "
        "the first update to the end of the last. The order alternates between pairs. Run nothing else meanwhile.",
        allow_abbrev=False,
    )
    p.add_argument("--of", metavar="FLAGS", required=True, help="flags to measure, such as --of=--trace")
    p.add_argument("--ranks", metavar="N", default="1", help="number of ranks (default: 1)")
    p.add_argument("--repeats", metavar="K", default="8", help="pairs of runs, at least 2 (default: 8)")
    p.add_argument("--steps-per-rank", metavar="T", default="15000", help="length of each run (default: 15000)")
    p.add_argument("--preset", metavar="P", default="default", help="preset of the training (default: default)")
    p.add_argument("--out", metavar="FOLDER", help="also write cost.csv there")
    p.add_argument("--json", action="store_true", help="also print the result as a last line of JSON")
    return p


def main(argv):
    """Measure and report. Returns the exit code."""
    cli.refuse_mpirun()
    args, rest = parser().parse_known_args(argv)
    flags = checked(_words, args.of, "--of")
    cli.check_flags([*rest, *flags], parser(), REFUSED)
    ranks = checked(integer(), args.ranks, "--ranks")
    repeats = checked(integer(2), args.repeats, "--repeats")
    steps = checked(integer(), args.steps_per_rank, "--steps-per-rank")
    words = ["--preset", args.preset, *rest, "--total-timesteps", str(steps * ranks)]
    ways = {"with": [*words, *flags], "without": words}
    for flags in ways.values():
        config, given = parse_train(flags)
        config.check(ranks, given)
    if args.out:
        cli.claim(args.out, "cost.csv", "scaling.measure.cost", argv)
    rows = []
    for repeat in range(repeats):
        print(f"{repeat + 1} of {repeats}", file=sys.stderr, flush=True)
        order = list(ways)[:: 1 if repeat % 2 else -1]
        rows.append({"repeat": repeat, **{way: seconds(ranks, ways[way], steps * ranks) for way in order}})
    found = ratio([row["with"] / row["without"] for row in rows])
    facts = cli.facts("scaling.measure.cost", argv)
    if args.out:
        write_csv(
            os.path.join(args.out, "cost.csv"),
            *KIND,
            [{name: row[name] for name in ("repeat", *ways)} for row in rows],
            facts | found,
        )
    low, high = found["ci95"]
    print(
        f"{args.of} takes {found['ratio']:.3f} times as long on {ranks} ranks (95 %: {low:.3f} to {high:.3f})",
        flush=True,
    )
    if args.json:
        print(json.dumps(found | {"rows": rows}), flush=True)
    return 0


def _words(text):
    try:
        return shlex.split(text)
    except ValueError as error:
        raise ValueError(f"flags as in a shell ({error})") from None


def seconds(ranks, flags, steps):
    """Seconds between the ends of the first and the last update of a real run of ``steps`` steps."""
    with timed_run.trained(ranks, flags, PATIENCE) as folder:
        lines = timed_run.read_metrics(folder)
    timed_run.check_whole(lines, steps)
    return round(lines[-1]["wall_s"] - lines[0]["wall_s"], 4)


def ratio(ratios):
    """Geometric mean of paired ratios and its 95 % t-interval: a JSON-able dict."""
    logs = np.log(ratios)
    spread = stats.t.ppf(0.975, len(logs) - 1) * stats.sem(logs)
    middle, low, high = np.exp(logs.mean() + np.array([0.0, -spread, spread])).tolist()
    return {"ratio": middle, "ci95": [low, high], "pairs": len(logs)}


if __name__ == "__main__":
    cli.run(main)
