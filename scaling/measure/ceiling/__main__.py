"""Measure training against the emulator's speed, part by part: ``python -m scaling.measure.ceiling``.

The command starts its own ranks. All parts play the same games, those of the policy in training. They are interleaved,
so that drift affects all of them. The training is not kept.
"""

import importlib.util
import json
import os
import sys
import tempfile

from pg_mpi.config.command_line import parse_train
from pg_mpi.config.errors import UsageError
from pg_mpi.config.parsers import Parser, checked, integer, real
from pg_mpi.files.run_folder import write_json
from pg_mpi.mpi.launch import mpirun
from scaling import cli
from scaling.measure import timed_run
from scaling.measure.ceiling import report
from scaling.pictures import speed

#: Training settings that cannot be given here: how long to train, and where.
REFUSED = {"run_dir", "total_timesteps", "max_walltime", "target_return", "track", "expect_ranks", "elastic"}


def parser():
    """Create the argument parser."""
    p = Parser(
        prog="python -m scaling.measure.ceiling",
        description="Measure the emulator alone, then with one more part of playing at a time, then training, then "
        "training with one part replaced by a stub. The table lists the cost of each part and its speed relative to "
        "the emulator. The command starts its own ranks: run it without mpirun.",
        epilog="All other flags are those of pg_mpi.train: --resume RUN measures with the policy of another run, "
        "--envs-per-rank 8 --sync steps with fixed steps. Takes about 10 x SECONDS x REPEATS. Start-up is reported "
        "separately. Run nothing else on the machine meanwhile.",
        allow_abbrev=False,
    )
    p.add_argument("--ranks", metavar="N", help="MPI ranks (default: one per usable hardware thread)")
    p.add_argument("--seconds", metavar="S", default="5", help="length of each measurement (default: 5)")
    p.add_argument("--repeats", metavar="R", default="4", help="measurements of each part (default: 4)")
    p.add_argument("--preset", metavar="P", default="default", help="preset of the training (default: default)")
    p.add_argument("--out", metavar="FOLDER", help="also write ceiling.json and ceiling.png there (extra: plot)")
    p.add_argument("--json", action="store_true", help="also print the result as a last line of JSON")
    return p


def prepare(argv):
    """Parse and check a command line: (args, config, names of the training settings given).

    Raises ``UsageError``.
    """
    args, rest = parser().parse_known_args(argv)
    cli.check_flags(rest, parser(), REFUSED)
    args.ranks = mpirun.usable_threads() if args.ranks is None else checked(integer(), args.ranks, "--ranks")
    args.seconds = checked(real(0, open_low=True), args.seconds, "--seconds")
    args.repeats = checked(integer(), args.repeats, "--repeats")
    config, given = parse_train(["--preset", args.preset, *rest])
    config.check(args.ranks, given)
    if not config.env_id.startswith("ALE/") or config.policy != "usual":
        raise UsageError(f"{config.env_id} cannot be measured here: give an Atari game and the built-in policy")
    return args, config, given


def main(argv):
    """Measure and report. Returns the exit code."""
    cli.refuse_mpirun()
    args, config, _ = prepare(argv)
    if args.out:
        cli.claim(args.out, "ceiling.json", "scaling.measure.ceiling", argv)
    with tempfile.TemporaryDirectory(prefix="ceiling-") as folder:
        start = mpirun.mpirun_command(args.ranks) if args.ranks > 1 else []
        code, *_ = timed_run.run(
            [*start, sys.executable, "-m", "scaling.measure.ceiling.ranks", folder, *argv], told=True
        )
        if code:
            return code
        with open(os.path.join(folder, "measured.json"), encoding="utf-8") as file:
            measured = json.load(file)
    result = {
        **report.summary(measured.pop("speeds"), args.ranks),
        "ranks": args.ranks,
        "preset": args.preset,
        "seconds": args.seconds,
        "repeats": args.repeats,
        **cli.facts("scaling.measure.ceiling", argv),
        **measured,
    }
    print(report.table(result), flush=True)
    if args.out:
        write(args.out, result)
    if args.json:
        print(json.dumps(result), flush=True)
    return 0


def write(folder, result):
    """Write the result and, if matplotlib is installed, its figure."""
    write_json(os.path.join(folder, "ceiling.json"), result)
    if importlib.util.find_spec("matplotlib"):
        speed.draw_parts(os.path.join(folder, "ceiling.png"), result)
    else:
        print("no figure without matplotlib: pip install 'pg_mpi[plot]'", file=sys.stderr)


if __name__ == "__main__":
    cli.run(main)
