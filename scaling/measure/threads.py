"""Measure steps/s by ranks and BLAS threads per rank: ``python -m scaling.measure.threads``."""

import json
import os
import statistics
import sys
import tempfile
from pathlib import Path

from pg_mpi import THREAD_VARIABLES
from pg_mpi.config.parsers import integer
from pg_mpi.mpi.launch.mpirun import mpirun_command, usable_threads
from scaling import cli, sweep
from scaling.measure import timed_run
from scaling.pictures import speed

KIND = ("threads", 1)
#: Environment that stops Open MPI 4 and 5 from binding ranks to cores.
UNBOUND = {"OMPI_MCA_hwloc_base_binding_policy": "none", "PRTE_MCA_hwloc_default_binding_policy": "none"}


def parser():
    """Create the argument parser."""
    p = cli.parser(
        "scaling.measure.threads",
        "Measure Karpathy's method in dense float64 products (scaling/measure/dense_baseline.py) "
        "on each number of ranks with each number of BLAS threads per rank. pg_mpi pins one thread per rank; numpy "
        "uses all hardware threads by default. The command starts its own ranks: run it without mpirun.",
        "Takes SECONDS x REPEATS for each pair. A BLAS may load fewer threads; the table lists the number.",
    )
    counts = sweep.counts_of
    cli.add_option(p, "--ranks", "N,N", counts, "numbers of ranks (default: 1, 2, 4 ... twice the usable threads)")
    cli.add_option(p, "--threads", "T,T", counts, "BLAS threads of each rank (default: 1 and all usable threads)")
    cli.add_option(p, "--seconds", "S", cli.positive, "length of each measurement", 10)
    cli.add_option(p, "--repeats", "K", integer(), "measurements of each pair", 1)
    return cli.add_shared(p, "also write threads.csv and threads.png there (extra: plot)")


def main(argv):
    """Measure and report. Returns the exit code: 1 if a measurement failed."""
    cli.refuse_mpirun()
    args, usable = parser().parse(argv), usable_threads()
    ranks, threads = args.ranks or sweep.doubling(2 * usable), args.threads or sorted({1, usable})
    mpirun_command(ranks[0])  # raises if there is no mpirun
    cli.claim(args.out, "threads.csv", "scaling.measure.threads", argv)
    pairs = [(n, t) for n in ranks for t in threads]
    found, failed = {pair: [] for pair in pairs}, []
    for repeat in range(args.repeats):
        for n, t in pairs:
            label = f"{n} ranks x {t} threads"
            print(f"{label}, {repeat + 1} of {args.repeats}, {args.seconds:g} s", file=sys.stderr, flush=True)
            with timed_run.reported(failed, (n, t), label):
                found[n, t].append(measure(n, t, args.seconds))
    rows = [row(n, t, found[n, t]) for n, t in pairs if found[n, t]]
    if not rows:
        return 1
    csv = (*KIND, rows, cli.facts("scaling.measure.threads", argv))
    figure = (speed.draw_threads, rows, usable)
    result = {"rows": rows, "failed": failed, "figure": None}
    cli.write_result(args, "threads", table(rows, usable), result, table=csv, draw=figure)
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
        return json.loads(Path(path).read_text(encoding="utf-8"))


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
