"""Fit scaling laws to measured steps/s: ``python -m scaling.model.fit``."""

import os

from pg_mpi.config.errors import UsageError
from pg_mpi.config.parsers import integer, real
from scaling import cli
from scaling.csv_io import LARGEST, read_csv
from scaling.model import scaling_laws
from scaling.pictures import speed
from scaling.sweep import KIND as SWEEP

KIND = ("fit", 1)


def parser():
    """Create the argument parser."""
    p = cli.parser(
        "scaling.model.fit",
        "Fit a straight line, Amdahl's law and the Universal Scalability Law to steps/s against ranks, "
        "with 95 % intervals, and report the number of ranks that a speed needs, or that it is never reached.",
        "POINTS: the sweep.csv of scaling.sweep, its folder, or points such as 1:1082,2:1418,4:2090. Each law "
        "is checked by predicting the largest number of ranks from the others.",
    )
    targets = scaling_laws.targets_of
    p.add_argument("points", metavar="POINTS", type=read_points, help="a sweep, or points such as 1:1082,2:1418")
    cli.add_option(p, "--target", "X,X", targets, "steps/s to reach (default: twice the fastest point)")
    return cli.add_shared(p, "also write fit.json, fit.csv and fit.png there (extra: plot)")


def main(argv):
    """Fit and report. Returns the exit code."""
    args = parser().parse(argv)
    ranks, sps = args.points
    targets = args.target or [2 * max(sps)]
    cli.claim(args.out, "fit.json", "scaling.model.fit", argv)
    fits, facts = scaling_laws.fit_all(ranks, sps, targets), cli.facts("scaling.model.fit", argv)
    result = {"fits": fits, "points": list(zip(ranks, sps)), **facts}
    csv = (*KIND, flat(fits), facts)
    figure = (speed.draw_fit, ranks, sps, targets)
    cli.write_result(args, "fit", scaling_laws.table(fits), result, saved=result, table=csv, draw=figure)
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
