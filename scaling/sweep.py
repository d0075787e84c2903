"""Measure training speed on several numbers of ranks: ``python -m scaling.sweep``.

``--out`` receives a JSON file per measurement, ``sweep.csv`` with a row per measurement, and ``sweep.png``. Existing
measurements are not repeated, so the same command resumes a sweep. A failed measurement is reported and skipped.
``jobs/scaling.slurm`` and ``jobs/scaling.pbs`` run this inside one allocation.
"""

import csv
import os
from pathlib import Path

from pg_mpi.config.errors import UsageError, counted
from pg_mpi.config.parsers import choice, integer
from pg_mpi.files.atomic_file import write_json
from pg_mpi.files.csv_table import make_folder
from pg_mpi.files.provenance import utc
from pg_mpi.mpi.launch.mpirun import start_command, usable_cores
from scaling import cli
from scaling.measure import efficiency, timed_run
from scaling.measure.host_file import host_file
from scaling.model import scaling_laws
from scaling.pictures import speed

#: Kind and version of ``sweep.csv``.
KIND = ("sweep", 1)
#: Training settings that cannot be given here.
REFUSED = {"run_dir", "resume", "max_walltime", "total_timesteps", "target_return", "expect_ranks", "track"}


def parser():
    """Create the argument parser."""
    p = cli.parser(
        "scaling.sweep",
        "Train on each number of ranks, and report steps/s, efficiency relative to the fewest ranks, and "
        "the share of each phase. The command starts its own ranks: run it without mpirun.",
        "All other flags are those of pg_mpi.train. weak: every rank has --envs-per-rank envs. strong: a fixed "
        "total of envs, --envs-per-rank times the largest number of ranks, is divided among the ranks. Takes "
        "(WARMUP + SECONDS) x REPEATS for each number of ranks. Run nothing else on the machine meanwhile.",
    )
    numbers = "numbers of ranks (default: 1, 2, 4 ... and all cores, or all slots of --hosts)"
    cli.add_option(p, "--ranks", "N,N,...", cli.counts, numbers)
    cli.add_option(p, "--mode", "M", choice("weak", "strong"), "weak or strong scaling", "weak")
    p.add_argument("--hosts", metavar="FILE", help="host file: a line NAME slots=N per host (default: this machine)")
    cli.add_option(p, "--launcher", None, None, 'mpirun, or such as "srun --mpi=pmix"', "mpirun")
    cli.add_option(p, "--seconds", "S", cli.positive, "length of each measurement", 20)
    cli.add_option(p, "--warmup", "S", cli.positive, "seconds excluded at the start of each", 5)
    cli.add_option(p, "--repeats", "K", integer(), "measurements per number of ranks", 1)
    cli.add_option(p, "--target", "X,X", cli.speeds, "steps/s to extrapolate to (default: twice the fastest)")
    cli.add_shared(p, "results folder", "runs/sweep", preset=True)
    p.add_argument("--keep", action="store_true", help="also keep the run folders there, for scaling.model.predict")
    return p


def prepare(argv):
    """Parse and check a command line. Raises ``UsageError``.

    Returns:
        args, with ``words`` (training flags of every run), ``nodes`` (those of the host file, or None) and ``envs``
        (their total number with ``--mode strong``, else None).
    """
    args, words = cli.parse_training(parser(), argv, REFUSED)
    args.words = words
    args.nodes = host_file(args.hosts) if args.hosts else None
    args.ranks = args.ranks or doubling(sum(args.nodes.values()) if args.nodes else usable_cores())
    most = args.ranks[-1]
    start_command(args.launcher, args.ranks[0])  # raises if there is no mpirun
    if args.nodes and args.launcher.split()[0] != "mpirun":
        raise UsageError(f"--hosts needs mpirun: {args.launcher} finds its hosts itself")
    if args.nodes and most > (room := sum(args.nodes.values())):
        raise UsageError(f"{args.hosts} has room for {room} ranks, not {most}: give fewer --ranks")
    config, _ = cli.check_training(words)
    args.settings = config.identity()
    args.envs = config.envs_per_rank * most if args.mode == "strong" else None
    for ranks in args.ranks:
        if args.envs and args.envs % ranks:
            raise UsageError(
                f"--mode strong cannot divide {args.envs} envs evenly among {ranks} ranks: remove it from --ranks"
            )
        cli.check_training(flags_of(args, ranks), ranks)
    return args


def flags_of(args, ranks):
    """Training flags on ``ranks`` ranks."""
    return [*args.words, "--envs-per-rank", str(args.envs // ranks)] if args.envs else args.words


def main(argv):
    """Run the missing measurements and report. Returns the exit code: 1 if a measurement failed."""
    args = prepare(argv)
    make_folder(args.out)
    same = {name: getattr(args, name) for name in ("mode", "words", "envs", "seconds", "warmup", "launcher")}
    facts = cli.facts("scaling.sweep", argv)
    same |= {"settings": args.settings, "hosts": args.nodes, "cores": facts["cores"], "cpu": facts["cpu"]}
    cli.read_parts(args.out, same)
    failed = measure(args, same | facts)
    results = cli.read_parts(args.out, same)
    if not results:
        return 1
    rows = efficiency.summary(results)
    points = [result["ranks"] for result in results], [result["sps"] for result in results]
    targets = args.target or [2 * max(points[1])]
    fits = scaling_laws.fit_all(*points, targets)
    text = f"{efficiency.table(rows)}\n\n{scaling_laws.table(fits)}"
    facts = {name: results[-1][name] for name in ("command", "versions", "cpu", "cores")}
    columns = (*KIND, [efficiency.flat(result) for result in results], facts)
    figure = (speed.draw_sweep, rows, *points, targets)
    result = {"rows": rows, "failed": failed, "fit": fits}
    cli.write_result(args, "sweep", text, result, table=columns, draw=figure)
    return int(bool(failed))


def measure(args, facts):
    """Run the measurements whose file is missing. Returns the numbers of ranks that failed."""
    failed, length = [], args.warmup + args.seconds
    for repeat in range(args.repeats):
        for ranks in args.ranks:  # interleaved, so that drift affects all of them
            place = Path(args.out, f"ranks-{ranks:06d}-{repeat}.json")
            kept = os.path.join(args.out, f"run-{ranks:06d}-{repeat}") if args.keep else None
            if place.exists() and (not kept or os.path.isdir(kept)):
                continue
            cli.say(f"{counted(ranks, 'rank')}, {repeat + 1} of {args.repeats}, {length:g} s")
            flags, before = flags_of(args, ranks), timed_run.stolen()
            with timed_run.reported(failed, ranks, counted(ranks, "rank")):
                with timed_run.trained(ranks, flags, length, args.launcher, args.nodes, keep=kept) as run:
                    result = timed_run.measured(timed_run.read_metrics(run), args.warmup)
                write_json(str(place), {"repeat": repeat, **result, "stolen": _share(before), **facts, "time": utc()})
    return failed


def _share(before):
    """Share of processor time since ``before`` that the host gave to other machines."""
    (stolen, ticks), now = before, timed_run.stolen()
    return round((now[0] - stolen) / max(now[1] - ticks, 1), 4)


def read_speeds(path):
    """Read a ``sweep.csv``: ranks and steps/s of each measurement, two lists. Raises ``UsageError``."""
    try:
        header, *lines = Path(path).read_text(encoding="utf-8").splitlines()
        if header != "# pg_mpi {} {}".format(*KIND):
            raise ValueError("another header")
        rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))
        return [integer()(row["ranks"]) for row in rows], [cli.positive(row["sps"]) for row in rows]
    except (OSError, csv.Error, KeyError, TypeError, ValueError):
        wanted = "measure it again with python -m scaling.sweep"
        raise UsageError(f"{path} is missing, damaged or of another version: {wanted}") from None


def doubling(most):
    """Powers of two up to ``most``, and ``most`` itself."""
    return sorted({2**k for k in range(most.bit_length())} | {most})


if __name__ == "__main__":
    cli.run(main, resumable=True)
