"""Fit scaling laws to measured steps/s: ``python -m scaling.model.fit``."""

import json
import os

from pg_mpi.config.errors import UsageError
from pg_mpi.config.parsers import Parser, checked, integer, real
from pg_mpi.files.csv_table import write_csv
from pg_mpi.files.figure_file import picture
from pg_mpi.files.run_folder import write_json
from scaling import cli
from scaling.csv_io import LARGEST, read_csv
from scaling.model import scaling_laws
from scaling.pictures import speed
from scaling.sweep import KIND as SWEEP

KIND = ("fit", 1)


def parser():
    """Create the argument parser."""
    p = Parser(
        prog="python -m scaling.model.fit",
        description="Fit a straight line, Amdahl's law and the Universal Scalability Law to steps/s against ranks, "
        "with 95 % intervals, and report the number of ranks that a speed needs, or that it is never reached.",
        epilog="POINTS: the sweep.csv of scaling.sweep, its folder, or points such as 1:1082,2:1418,4:2090. Each law "
        "is checked by predicting the largest number of ranks from the others.",
        allow_abbrev=False,
    )
    p.add_argument("points", metavar="POINTS", help="a sweep, or points such as 1:1082,2:1418")
    p.add_argument("--target", metavar="X,X", help="steps/s to reach (default: twice the fastest point)")
    p.add_argument("--out", metavar="FOLDER", help="also write fit.json, fit.csv and fit.png there (extra: plot)")
    p.add_argument("--json", action="store_true", help="also print the result as a last line of JSON")
    return p


def main(argv):
    """Fit and report. Returns the exit code."""
    args = parser().parse(argv)
    ranks, sps = checked(read_points, args.points, "POINTS")
    targets = checked(scaling_laws.targets_of, args.target, "--target") if args.target else [2 * max(sps)]
    if args.out:
        cli.claim(args.out, "fit.json", "scaling.model.fit", argv)
    fits = scaling_laws.fit_all(ranks, sps, targets)
    facts = cli.facts("scaling.model.fit", argv)
    result = {"fits": fits, "points": list(zip(ranks, sps)), **facts}
    print(scaling_laws.table(fits), flush=True)
    if args.out:
        write_json(os.path.join(args.out, "fit.json"), result)
        write_csv(os.path.join(args.out, "fit.csv"), *KIND, flat(fits), facts)
        picture(speed.draw_fit, os.path.join(args.out, "fit.png"), ranks, sps, targets)
    if args.json:
        print(json.dumps(result), flush=True)
    return 0


def flat(fits):
    """One row per parameter of each law and per target. Empty cells: unknown, or never reached."""
    rows = []
    for fit in fits:
        found = fit.get("parameters", {}) | {
            f"ranks for {needed['sps']:g} steps/s": {"value": needed["ranks"], **needed}
            for needed in fit.get("needed", [])
        }
        for name, each in found.items():
            rows.append({"law": fit["law"], "what": name, **{key: each[key] for key in ("value", "low", "high")}})
    return rows


def read_points(words):
    """Read (ranks, steps/s), two lists, from a sweep or from words such as ``1:1082,2:1418``."""
    if os.path.isdir(words):
        words = os.path.join(words, "sweep.csv")
    if os.path.exists(words):
        rows, _ = read_csv(words, *SWEEP, positive=("ranks", "sps"))
        points = [(row["ranks"], row["sps"]) for row in rows]
    else:
        if ":" not in words:
            raise UsageError(f"no file or folder {words}: give a sweep, or points such as 1:1082,2:1418,4:2090")
        try:
            pairs = [word.split(":") for word in words.split(",")]
            points = [(integer(1, scaling_laws.MOST)(n), real(1e-6, LARGEST)(x)) for n, x in pairs]
        except ValueError as error:
            raise ValueError(f"ranks:steps/s pairs such as 1:1082,2:1418 ({error})") from None
    if not points:
        raise UsageError(f"{words} contains no point")
    ranks, sps = zip(*points)
    return list(ranks), list(sps)


if __name__ == "__main__":
    cli.run(main)
