"""Measure the cost of a training flag: ``python -m scaling.measure.cost --of=--trace --ranks 2``."""

import shlex

import numpy as np
from scipy import stats

from pg_mpi.config.errors import counted
from pg_mpi.config.parsers import integer
from scaling import cli
from scaling.measure import timed_run

KIND = ("cost", 2)
REFUSED = {"run_dir", "resume", "max_walltime", "target_return", "expect_ranks", "total_timesteps"}
PATIENCE = 600.0  # seconds


def parser():
    """Create the argument parser."""
    p = cli.parser(
        "scaling.measure.cost",
        "Train with and without some flags in turns, from the same seed, and report the ratio of the times of a step "
        "with its 95 % interval. The command starts its own ranks: run it without mpirun.",
        "All other flags are those of pg_mpi.train and apply to all runs. Times are measured from the end of "
        "the first update to the end of the last. The order alternates between pairs. Run nothing else meanwhile.",
    )
    p.add_argument("--of", metavar="FLAGS", type=_words, required=True, help="flags to measure, as --of=--trace")
    cli.add_option(p, "--ranks", "N", integer(), "number of ranks", 1)
    cli.add_option(p, "--repeats", "K", integer(2), "pairs of runs, at least 2", 8)
    cli.add_option(p, "--steps-per-rank", "T", integer(), "length of each run", 15000)
    return cli.add_shared(p, "also write cost.csv there", preset=True)


def main(argv):
    """Measure and report. Returns the exit code."""
    args, words = cli.parse_training(parser(), argv, REFUSED)
    cli.check_flags(args.of, parser(), REFUSED)
    for flags in (words, [*words, *args.of]):
        cli.check_training(flags, args.ranks)
    steps = args.steps_per_rank * args.ranks
    words += ["--total-timesteps", str(steps)]
    ways = {"with": [*words, *args.of], "without": words}
    facts = cli.claim(args.out, "cost.csv", "scaling.measure.cost", argv)
    rows = []
    for repeat in range(args.repeats):
        cli.say(f"{repeat + 1} of {args.repeats}")
        order = list(ways)[:: 1 if repeat % 2 else -1]
        row = {"repeat": repeat, **dict.fromkeys(ways)}  # columns in one order
        rows.append(row | {way: time_of_step(args.ranks, ways[way], steps) for way in order})
    found = ratio([row["with"] / row["without"] for row in rows])
    low, high = found["ci95"]
    takes = f"{found['ratio']:.3f} times as long on {counted(args.ranks, 'rank')} (95 %: {low:.3f} to {high:.3f})"
    text = f"{shlex.join(args.of)} takes {takes}"
    cli.write_result(args, "cost", text, found | {"rows": rows}, table=(*KIND, rows, facts | found))
    return 0


def _words(text):
    try:
        return shlex.split(text)
    except ValueError as error:
        raise ValueError(f"flags as in a shell ({error})") from None


def time_of_step(ranks, flags, steps):
    """Microseconds per step of all ranks between the ends of the first and the last update of a run of ``steps``."""
    with timed_run.trained(ranks, flags, PATIENCE) as folder:
        lines = timed_run.read_metrics(folder)
    timed_run.check_whole(lines, steps)
    spent, played = (lines[-1][name] - lines[0][name] for name in ("wall_s", "env_steps"))
    return round(1e6 * spent / played, 4)


def ratio(ratios):
    """Geometric mean of paired ratios and its 95 % t-interval: a JSON-able dict."""
    logs = np.log(ratios)
    spread = stats.t.ppf(0.975, len(logs) - 1) * stats.sem(logs)
    middle, low, high = np.exp(logs.mean() + np.array([0.0, -spread, spread])).tolist()
    return {"ratio": middle, "ci95": [low, high], "pairs": len(logs)}


if __name__ == "__main__":
    cli.run(main)
