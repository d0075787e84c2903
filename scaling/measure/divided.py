"""Measure what dividing the optimizer step among ranks gains: ``python -m scaling.measure.divided --ranks 1,2,4``."""

import statistics
import sys

from pg_mpi.config.parsers import integer
from pg_mpi.mpi.launch.mpirun import usable_threads
from scaling import cli, sweep
from scaling.measure import timed_run

KIND = ("divided", 1)
#: Fewest ranks that divide a step, by way: see ``pg_mpi/run/dividing.py``.
WAYS = {"whole": sweep.MOST + 1, "divided": 2}
#: Training settings that cannot be given here. With --elastic no step is divided.
REFUSED = sweep.OWN | {"elastic"}
PHASES = ("optimizer", "allreduce", "gradient")


def parser():
    """Create the argument parser."""
    p = cli.parser(
        "scaling.measure.divided",
        "Train on each number of ranks with the whole optimizer step on every rank and with the step divided among "
        "them, in turns, and report steps/s and the time of each phase per step of the optimizer. The command starts "
        "its own ranks: run it without mpirun.",
        "All other flags are those of pg_mpi.train: --hidden 128 makes a policy of 5 million parameters for Pong. "
        "Takes (WARMUP + SECONDS) x REPEATS twice for each number of ranks. Run nothing else meanwhile.",
    )
    cli.add_option(p, "--ranks", "N,N,...", sweep.counts_of, "numbers of ranks (default: 1, 2, 4 ... and all threads)")
    cli.add_option(p, "--seconds", "S", cli.positive, "length of each measurement", 15)
    cli.add_option(p, "--warmup", "S", cli.positive, "seconds excluded at the start of each", 5)
    cli.add_option(p, "--repeats", "K", integer(), "measurements of each way and number of ranks", 2)
    return cli.add_shared(p, "also write divided.csv there", preset=True)


def main(argv):
    """Measure and report. Returns the exit code: 1 if a measurement failed."""
    cli.refuse_mpirun()
    args, words = cli.parse_training(parser(), argv, REFUSED)
    args.ranks = args.ranks or sweep.doubling(usable_threads())
    cli.check_training(words, *args.ranks)
    cli.claim(args.out, "divided.csv", "scaling.measure.divided", argv)
    rows, failed = [], []
    for repeat in range(args.repeats):
        for ranks in args.ranks:
            for way in WAYS if ranks > 1 else ("whole",):
                print(f"{ranks} ranks, {way}, {repeat + 1} of {args.repeats}", file=sys.stderr, flush=True)
                with timed_run.reported(failed, ranks, f"{ranks} ranks, {way}"):
                    rows.append({"ranks": ranks, "way": way, "repeat": repeat, **_measure(args, words, ranks, way)})
    if rows:
        facts = cli.facts("scaling.measure.divided", argv)
        cli.write_result(args, "divided", table(rows), {"rows": rows, **facts}, table=(*KIND, rows, facts))
    return int(bool(failed))


def _measure(args, words, ranks, way):
    """Steps/s, and milliseconds of each phase per optimizer step, as a mean of the ranks: a dict."""
    program = ("scaling.measure.divided_ranks", str(WAYS[way]))
    with timed_run.trained(ranks, words, args.warmup + args.seconds, program=program) as run:
        result = timed_run.measured(timed_run.read_metrics(run), args.warmup)
    span = 1000 / (result["updates_per_s"] * result["exchanges_per_update"])
    phases = {f"{name}_ms": round(result["phase_share"][name] * span, 4) for name in PHASES}
    return {"sps": round(result["sps"], 1), "rss_mb": result["rss_mb"], **phases}


def table(rows):
    """Format medians over the repeats as text: a line per number of ranks and way."""
    names = ("sps", *(f"{name}_ms" for name in PHASES))
    lines = [f"{'ranks':>6}{'step':>9}{'steps/s':>10}" + "".join(f"{f'{name}, ms':>15}" for name in PHASES)]
    for ranks, way in dict.fromkeys((row["ranks"], row["way"]) for row in rows):
        group = [row for row in rows if (row["ranks"], row["way"]) == (ranks, way)]
        sps, *times = (statistics.median(row[name] for row in group) for name in names)
        lines.append(f"{ranks:>6}{way:>9}{sps:>10,.0f}" + "".join(f"{time:>15.3f}" for time in times))
    return "\n".join(lines)


if __name__ == "__main__":
    cli.run(main)
