"""Measure steps/s by ranks and BLAS threads per rank: ``python -m scaling.measure.threads``."""

import json
import os
import statistics
import sys
import tempfile

from pg_mpi import THREAD_VARIABLES
from pg_mpi.config.parsers import Parser, checked, integer, real
from pg_mpi.files.csv_table import write_csv
from pg_mpi.files.figure_file import picture
from pg_mpi.mpi.launch.mpirun import mpirun_command, usable_threads
from scaling import cli, sweep
from scaling.measure import timed_run
from scaling.pictures import speed

KIND = ("threads", 1)
#: Environment that stops Open MPI 4 and 5 from binding ranks to cores.
UNBOUND = {"OMPI_MCA_hwloc_base_binding_policy": "none", "PRTE_MCA_hwloc_default_binding_policy": "none"}


def parser():
    """Create the argument parser."""
    p = Parser(
        prog="python -m scaling.measure.threads",
        description="Measure Karpathy's method in dense float64 products (scaling/measure/dense_baseline.py) "
        "on each number of ranks with each number of BLAS threads per rank. pg_mpi pins one thread per rank; numpy "
        "uses all hardware threads by default. The command starts its own ranks: run it without mpirun.",
        epilog="Takes SECONDS x REPEATS for each pair. A BLAS may load fewer threads; the table lists the number.",
        allow_abbrev=False,
    )
    p.add_argument("--ranks", metavar="N,N", help="numbers of ranks (default: 1, 2, 4 ... twice the usable threads)")
    p.add_argument("--threads", metavar="T,T", help="BLAS threads of each rank (default: 1 and all usable threads)")
    p.add_argument("--seconds", metavar="S", default="10", help="length of each measurement (default: 10)")
    p.add_argument("--repeats", metavar="K", default="1", help="measurements of each pair (default: 1)")
    p.add_argument("--out", metavar="FOLDER", help="also write threads.csv and threads.png there (extra: plot)")
    p.add_argument("--json", action="store_true", help="also print the result as a last line of JSON")
    return p


def main(argv):
    """Measure and report. Returns the exit code: 1 if a measurement failed."""
    cli.refuse_mpirun()
    args = parser().parse(argv)
    usable = usable_threads()
    ranks = checked(sweep.counts_of, args.ranks, "--ranks") if args.ranks else sweep.doubling(2 * usable)
    threads = checked(sweep.counts_of, args.threads, "--threads") if args.threads else sorted({1, usable})
    seconds = checked(real(0, open_low=True), args.seconds, "--seconds")
    repeats = checked(integer(), args.repeats, "--repeats")
    if args.out:
        cli.claim(args.out, "threads.csv", "scaling.measure.threads", argv)
    pairs = [(n, t) for n in ranks for t in threads]
    found, failed = {pair: [] for pair in pairs}, []
    for repeat in range(repeats):
        for n, t in pairs:
            print(f"{n} ranks x {t} threads, {repeat + 1} of {repeats}, {seconds:g} s", file=sys.stderr, flush=True)
            try:
                found[n, t].append(measure(n, t, seconds))
            except RuntimeError as error:
                failed.append((n, t))
                print(f"pg_mpi: error: {n} ranks x {t} threads: {error}", file=sys.stderr, flush=True)
    rows = [row(n, t, found[n, t]) for n, t in pairs if found[n, t]]
    if not rows:
        return 1
    print(table(rows, usable), flush=True)
    figure = None
    if args.out:
        write_csv(os.path.join(args.out, "threads.csv"), *KIND, rows, cli.facts("scaling.measure.threads", argv))
        figure = picture(speed.draw_threads, os.path.join(args.out, "threads.png"), rows, usable)
    if args.json:
        print(json.dumps({"rows": rows, "failed": failed, "figure": figure}), flush=True)
    return int(bool(failed))


def measure(ranks, threads, seconds):
    """Run ``scaling.measure.dense_baseline`` once. Raises ``RuntimeError``."""
    with tempfile.TemporaryDirectory(prefix="threads-") as folder:
        path = os.path.join(folder, "measured.json")
        environment = {**os.environ, **dict.fromkeys(THREAD_VARIABLES, str(threads))}
        environment |= UNBOUND  # a bound rank would run all its threads on one core
        line = [*mpirun_command(ranks), sys.executable, "-m", "scaling.measure.dense_baseline", path, str(seconds)]
        code, _, errors = timed_run.run(line, environment)
        if code:
            raise RuntimeError(f"exit code {code}\n{errors.strip()}")
        with open(path, encoding="utf-8") as file:
            return json.load(file)


def row(ranks, threads, results):
    """Medians over the repeats of one pair."""
    shares = {name: statistics.median(r["phase_share"][name] for r in results) for name in results[0]["phase_share"]}
    return {
        "ranks": ranks,
        "threads": threads,
        "threads_loaded": results[0]["threads_loaded"],
        "sps": round(statistics.median(result["sps"] for result in results), 1),
        **{name: round(share, 4) for name, share in shares.items() if share > 0},
    }


def table(rows, usable):
    """Format the rows as text, with the number of ranks beyond which speed drops."""
    lines = [f"{'ranks':>6}{'threads':>9}{'loaded':>8}{'steps/s':>10}{'a rank':>8}{'inference':>11}{'gradient':>10}"]
    for each in rows:
        lines.append(
            f"{each['ranks']:>6}{each['threads']:>9}{each['threads_loaded']:>8}{each['sps']:>10,.0f}"
            f"{each['sps'] / each['ranks']:>8,.0f}{each['inference']:>11.1%}{each['gradient']:>10.1%}"
        )
    lines.append("")
    for threads in sorted({each["threads"] for each in rows}):
        curve = [each for each in rows if each["threads"] == threads]
        best = max(curve, key=lambda each: each["sps"])
        wall = (
            f"falls to {curve[-1]['sps'] / best['sps']:.2f} of it on {curve[-1]['ranks']}"
            if best is not curve[-1]
            else "no drop"
        )
        lines.append(f"{threads} threads a rank: most on {best['ranks']} ranks, {best['sps']:,.0f} steps/s; {wall}")
    lines.append(f"{usable} usable hardware threads: more ranks than that share them")
    return "\n".join(lines)


if __name__ == "__main__":
    cli.run(main)
