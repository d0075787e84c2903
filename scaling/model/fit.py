"""Fit scaling laws to measured steps/s: ``python -m scaling.model.fit``."""

import os

from pg_mpi.config.errors import UsageError
from pg_mpi.config.parsers import integer, real
from scaling import cli, sweep
from scaling.model import scaling_laws
from scaling.pictures import speed

LARGEST = 1e15  # upper bound for speeds


def parser():
    """Create the argument parser."""
    p = cli.parser(
        "scaling.model.fit",
        "Fit a straight line, Amdahl's law and the Universal Scalability Law to steps/s against ranks, "
        "with 95 % intervals, and report the number of ranks that a speed needs, or that it is never reached.",
        "POINTS: the sweep.csv of scaling.sweep, its folder, or points such as 1:1082,2:1418,4:2090. Each law "
        "is checked by predicting the largest number of ranks from the others.",
    )
    p.add_argument("points", metavar="POINTS", type=read_points, help="a sweep, or points such as 1:1082,2:1418")
    cli.add_option(p, "--target", "X,X", cli.speeds, "steps/s to reach (default: twice the fastest point)")
    return cli.add_shared(p, "also write fit.json and fit.png there (extra: plot)")


def main(argv):
    """Fit and report. Returns the exit code."""
    args = parser().parse(argv)
    ranks, sps = args.points
    if len(set(ranks)) < 2:
        raise UsageError("one number of ranks has no law: give at least two")
    targets = args.target or [2 * max(sps)]
    facts = cli.claim(args.out, "fit.json", "scaling.model.fit", argv)
    fits = scaling_laws.fit_all(ranks, sps, targets)
    result = {"fits": fits, "points": list(zip(ranks, sps)), **facts}
    figure = (speed.draw_fit, ranks, sps, targets)
    cli.write_result(args, "fit", scaling_laws.table(fits), result, saved=result, draw=figure)
    return 0


def read_points(words):
    """Read (ranks, steps/s), two lists, from a sweep or from words such as ``1:1082,2:1418``."""
    if os.path.isdir(words):
        words = os.path.join(words, "sweep.csv")
    if os.path.exists(words):
        ranks, sps = sweep.read_speeds(words)
        if not ranks:
            raise UsageError(f"{words} contains no point")
        return ranks, sps
    if ":" not in words:
        raise UsageError(f"no file or folder {words}: give a sweep, or points such as 1:1082,2:1418,4:2090")
    try:
        pairs = [word.split(":") for word in words.split(",")]
        points = [(integer(1, scaling_laws.MOST)(n), real(1e-6, LARGEST)(x)) for n, x in pairs]
    except ValueError as error:
        raise ValueError(f"ranks:steps/s pairs such as 1:1082,2:1418 ({error})") from None
    return tuple(map(list, zip(*points)))


if __name__ == "__main__":
    cli.run(main)
