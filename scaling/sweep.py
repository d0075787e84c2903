"""Measure training speed on several numbers of ranks: ``python -m scaling.sweep``.

``--out`` receives a JSON file per measurement, ``sweep.csv`` with a row per measurement, and ``sweep.png``. Existing
measurements are not repeated, so the same command resumes a sweep. A failed measurement is reported and skipped.
``jobs/scaling.slurm`` and ``jobs/scaling.pbs`` run this inside one allocation.
"""

import dataclasses
import json
import os
import sys
from pathlib import Path

from pg_mpi.config.command_line import parse_train
from pg_mpi.config.errors import UsageError
from pg_mpi.config.parsers import Parser, checked, choice, integer, real
from pg_mpi.files.csv_table import make_folder, write_csv
from pg_mpi.files.figure_file import picture
from pg_mpi.files.run_folder import write_json
from pg_mpi.mpi.launch.mpirun import start_command, usable_threads
from pg_mpi.mpi.launch.nodes import host_file
from scaling import cli
from scaling.csv_io import read_parts
from scaling.measure import efficiency, timed_run
from scaling.model import scaling_laws
from scaling.pictures import speed

#: Kind and version of ``sweep.csv``.
KIND = ("sweep", 1)
MOST = 10**6  # ranks
#: Training settings that cannot be given here.
OWN = {"run_dir", "resume", "max_walltime", "total_timesteps", "target_return", "expect_ranks", "track"}


def parser():
    """Create the argument parser."""
    p = Parser(
        prog="python -m scaling.sweep",
        description="Train on each number of ranks, and report steps/s, efficiency relative to the fewest ranks, and "
        "the share of each phase. The command starts its own ranks: run it without mpirun.",
        epilog="All other flags are those of pg_mpi.train. weak: every rank has --envs-per-rank envs. strong: a fixed "
        "total of envs, --envs-per-rank times the largest number of ranks, is divided among the ranks. Takes "
        "(WARMUP + SECONDS) x REPEATS for each number of ranks. Run nothing else on the machine meanwhile.",
        allow_abbrev=False,
    )
    p.add_argument("--ranks", metavar="N,N,...", help="numbers of ranks (default: 1, 2, 4 ... and all usable threads)")
    p.add_argument("--mode", metavar="M", default="weak", help="weak or strong scaling (default: weak)")
    p.add_argument("--hosts", metavar="FILE", help="host file: a line NAME slots=N per host (default: this machine)")
    p.add_argument("--launcher", default="mpirun", help='mpirun, or such as "srun --mpi=pmix" (default: mpirun)')
    p.add_argument("--seconds", metavar="S", default="20", help="length of each measurement (default: 20)")
    p.add_argument("--warmup", metavar="S", default="5", help="seconds excluded at the start of each (default: 5)")
    p.add_argument("--repeats", metavar="K", default="1", help="measurements per number of ranks (default: 1)")
    p.add_argument("--preset", metavar="P", default="default", help="preset of the training (default: default)")
    p.add_argument("--target", metavar="X,X", help="steps/s to extrapolate to (default: twice the fastest)")
    p.add_argument("--out", metavar="FOLDER", default="runs/sweep", help="results folder (default: runs/sweep)")
    p.add_argument("--keep", action="store_true", help="also keep the run folders there, for scaling.model.predict")
    p.add_argument("--json", action="store_true", help="also print the result as a last line of JSON")
    return p


@dataclasses.dataclass(frozen=True)
class Plan:
    """A checked command line."""

    counts: list
    words: list  # training flags of every run
    envs: int | None  # total, with --mode strong
    seconds: float
    warmup: float
    repeats: int
    launcher: str
    nodes: dict | None
    keep: bool

    def flags(self, ranks):
        """Training flags on ``ranks`` ranks."""
        return [*self.words, "--envs-per-rank", str(self.envs // ranks)] if self.envs else self.words


def prepare(argv):
    """Parse and check a command line: (args, ``Plan``). Raises ``UsageError``."""
    args, rest = parser().parse_known_args(argv)
    cli.check_flags(rest, parser(), OWN)
    seconds, warmup = (checked(real(0, open_low=True), getattr(args, n), f"--{n}") for n in ("seconds", "warmup"))
    repeats, mode = (
        checked(integer(), args.repeats, "--repeats"),
        checked(choice("weak", "strong"), args.mode, "--mode"),
    )
    counts = checked(counts_of, args.ranks, "--ranks") if args.ranks else doubling(usable_threads())
    args.target = checked(scaling_laws.targets_of, args.target, "--target") if args.target else []
    start_command(args.launcher, counts[0])  # raises if there is no mpirun
    nodes = host_file(args.hosts) if args.hosts else None
    if nodes and args.launcher.split()[0] != "mpirun":
        raise UsageError(f"--hosts needs mpirun: {args.launcher} finds its hosts itself")
    if nodes and counts[-1] > sum(nodes.values()):
        raise UsageError(f"{args.hosts} has room for {sum(nodes.values())} ranks, not {counts[-1]}: give fewer --ranks")
    words = ["--preset", args.preset, *rest]
    config, given = parse_train(words)
    envs = config.envs_per_rank * counts[-1] if mode == "strong" else None
    for ranks in counts:
        if envs and envs % ranks:
            raise UsageError(
                f"--mode strong cannot divide {envs} envs evenly among {ranks} ranks: remove it from --ranks"
            )
        dataclasses.replace(config, envs_per_rank=envs // ranks if envs else config.envs_per_rank).check(ranks, given)
    return args, Plan(counts, words, envs, seconds, warmup, repeats, args.launcher, nodes, args.keep)


def main(argv):
    """Run the missing measurements and report. Returns the exit code: 1 if a measurement failed."""
    cli.refuse_mpirun()
    args, plan = prepare(argv)
    make_folder(args.out)
    lengths = {"seconds": plan.seconds, "warmup": plan.warmup}
    same = {"mode": args.mode, "words": plan.words, "hosts": plan.nodes, "envs": plan.envs, **lengths}
    same |= {"launcher": plan.launcher, "cores": usable_threads()}
    read_parts(args.out, same)
    failed = measure(plan, Path(args.out), same | cli.facts("scaling.sweep", argv))
    results = read_parts(args.out, same)
    if not results:
        return 1
    rows = efficiency.summary(results)
    points = [result["ranks"] for result in results], [result["sps"] for result in results]
    targets = args.target or [2 * max(points[1])]
    fits = scaling_laws.fit_all(*points, targets)
    print(f"{efficiency.table(rows)}\n\n{scaling_laws.table(fits)}", flush=True)
    facts = {name: results[-1][name] for name in ("command", "versions", "cpu", "cores")}
    write_csv(os.path.join(args.out, "sweep.csv"), *KIND, [efficiency.flat(result) for result in results], facts)
    figure = picture(speed.draw_sweep, os.path.join(args.out, "sweep.png"), rows, *points, targets)
    if args.json:
        print(json.dumps({"rows": rows, "failed": failed, "fit": fits, "figure": figure}), flush=True)
    return int(bool(failed))


def measure(plan, folder, facts):
    """Run the measurements whose file is missing. Returns the numbers of ranks that failed."""
    failed = []
    for repeat in range(plan.repeats):
        for ranks in plan.counts:  # interleaved, so that drift affects all of them
            place = folder / f"ranks-{ranks:06d}-{repeat}.json"
            if place.exists():
                continue
            length = plan.warmup + plan.seconds
            print(f"{ranks} ranks, {repeat + 1} of {plan.repeats}, {length:g} s", file=sys.stderr, flush=True)
            kept, before = str(folder / f"run-{ranks:06d}-{repeat}") if plan.keep else None, timed_run.stolen()
            try:
                with timed_run.trained(ranks, plan.flags(ranks), length, plan.launcher, plan.nodes, keep=kept) as run:
                    result = timed_run.measured(timed_run.read_metrics(run), plan.warmup)
            except (RuntimeError, UsageError) as error:
                failed.append(ranks)
                print(f"pg_mpi: error: {ranks} ranks: {error}", file=sys.stderr, flush=True)
            else:
                write_json(str(place), {"repeat": repeat, **result, "stolen": _share(before), **facts})
    return failed


def _share(before):
    """Share of processor time since ``before`` that the host gave to other machines."""
    (stolen, ticks), now = before, timed_run.stolen()
    return round((now[0] - stolen) / max(now[1] - ticks, 1), 4)


def counts_of(text):
    """Parse numbers of ranks such as ``1,2,4``."""
    try:
        return sorted({integer(1, MOST)(word) for word in text.split(",")})
    except ValueError:
        raise ValueError(f"whole numbers from 1 to {MOST:,}, such as 1,2,4") from None


def doubling(most):
    """Powers of two up to ``most``, and ``most`` itself."""
    return sorted({2**k for k in range(most.bit_length())} | {most})


if __name__ == "__main__":
    cli.run(main, goes_on=True)
