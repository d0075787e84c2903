"""Steps/s against ranks: the same training on each number of ranks, one after another: ``python -m scaling.sweep``.

``--out`` gets a JSON file for each point, ``sweep.csv`` with a row for each, and ``sweep.png``. Points that are there
are not measured again, so an interrupted sweep goes on with the same command. A point that fails is told and left out.
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

#: What ``sweep.csv`` is, and the version of its columns.
KIND = ("sweep", 1)
MOST = 10**6  # ranks
#: Settings that each point has of its own.
OWN = {"run_dir", "resume", "max_walltime", "total_timesteps", "target_return", "expect_ranks", "track"}


def parser():
    """The command line."""
    p = Parser(
        prog="python -m scaling.sweep",
        description="Train for a while on each number of ranks, and report steps/s, efficiency against the fewest "
        "ranks, and where the time went. It starts its own ranks: no mpirun in front.",
        epilog="Every other flag is one of pg_mpi.train. weak: each rank has its envs, so more ranks play more games "
        "at once. strong: as many envs in all as the largest number of ranks has, shared out, so more ranks do the "
        "same in less time. (WARMUP + SECONDS) x REPEATS for each number of ranks. Leave the machine alone.",
        allow_abbrev=False,
    )
    p.add_argument("--ranks", metavar="N,N,...", help="numbers of ranks (default: 1, 2, 4 ... and all usable threads)")
    p.add_argument("--mode", metavar="M", default="weak", help="weak or strong scaling (default: weak)")
    p.add_argument("--hosts", metavar="FILE", help="a host file, a line NAME slots=N for each (default: this machine)")
    p.add_argument("--launcher", default="mpirun", help='mpirun, or another, as "srun --mpi=pmix" (default: mpirun)')
    p.add_argument("--seconds", metavar="S", default="20", help="length of a point (default: 20)")
    p.add_argument("--warmup", metavar="S", default="5", help="left out at the start of each (default: 5)")
    p.add_argument("--repeats", metavar="K", default="1", help="times that each point is measured (default: 1)")
    p.add_argument("--preset", metavar="P", default="default", help="settings of the training (default: default)")
    p.add_argument("--target", metavar="X,X", help="steps/s that the laws are asked for (default: twice the fastest)")
    p.add_argument("--out", metavar="FOLDER", default="runs/sweep", help="folder of the results (default: runs/sweep)")
    p.add_argument(
        "--keep", action="store_true", help="keep each point's run folder there too, for scaling.model.predict"
    )
    p.add_argument("--json", action="store_true", help="print one line of JSON, last")
    return p


@dataclasses.dataclass(frozen=True)
class Plan:
    """A checked command line: what to measure, and how."""

    counts: list
    words: list  # of every run
    envs: int | None  # in all, with --mode strong
    seconds: float
    warmup: float
    repeats: int
    launcher: str
    nodes: dict | None
    keep: bool

    def flags(self, ranks):
        """The training's flags on this many ranks."""
        return [*self.words, "--envs-per-rank", str(self.envs // ranks)] if self.envs else self.words


def prepare(argv):
    """(args, ``Plan``) of a command line. Raises ``UsageError``."""
    args, rest = parser().parse_known_args(argv)
    cli.check_flags(rest, parser(), OWN)
    seconds, warmup = (checked(real(0, open_low=True), getattr(args, n), f"--{n}") for n in ("seconds", "warmup"))
    repeats, mode = (
        checked(integer(), args.repeats, "--repeats"),
        checked(choice("weak", "strong"), args.mode, "--mode"),
    )
    counts = checked(counts_of, args.ranks, "--ranks") if args.ranks else doubling(usable_threads())
    args.target = checked(scaling_laws.targets_of, args.target, "--target") if args.target else []
    start_command(args.launcher, counts[0])  # refuses where there is no mpirun
    nodes = host_file(args.hosts) if args.hosts else None
    if nodes and args.launcher.split()[0] != "mpirun":
        raise UsageError(f"--hosts is for mpirun: {args.launcher} knows its own hosts")
    if nodes and counts[-1] > sum(nodes.values()):
        raise UsageError(f"{args.hosts} has room for {sum(nodes.values())} ranks, not {counts[-1]}: give fewer --ranks")
    words = ["--preset", args.preset, *rest]
    config, given = parse_train(words)
    envs = config.envs_per_rank * counts[-1] if mode == "strong" else None
    for ranks in counts:
        if envs and envs % ranks:
            raise UsageError(
                f"--mode strong shares {envs} envs, and {ranks} ranks cannot have equally many: leave it out"
            )
        dataclasses.replace(config, envs_per_rank=envs // ranks if envs else config.envs_per_rank).check(ranks, given)
    return args, Plan(counts, words, envs, seconds, warmup, repeats, args.launcher, nodes, args.keep)


def main(argv):
    """Measure what is missing, and tell; the process's exit code: 1 if a point failed."""
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
    """Measure the points whose file is missing; the numbers of ranks that failed."""
    failed = []
    for repeat in range(plan.repeats):
        for ranks in plan.counts:  # in turns, so that a drift of the machine meets all of them
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
    """The share of the processors' time since ``before`` that the machine's host gave to others."""
    (stolen, ticks), now = before, timed_run.stolen()
    return round((now[0] - stolen) / max(now[1] - ticks, 1), 4)


def counts_of(text):
    """Numbers of ranks from ``1,2,4``."""
    try:
        return sorted({integer(1, MOST)(word) for word in text.split(",")})
    except ValueError:
        raise ValueError(f"whole numbers from 1 to {MOST:,} with commas, as 1,2,4") from None


def doubling(most):
    """1, 2, 4 ... and ``most`` itself."""
    return sorted({2**k for k in range(most.bit_length())} | {most})


if __name__ == "__main__":
    cli.run(main, goes_on=True)
