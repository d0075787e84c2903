"""Measure learning speed over seeds: the same training from scratch with each seed in turn.

    python -m scaling.score.seeds --preset default,fast --seeds 17,93,410 --out FOLDER [-- TRAIN FLAGS]

Each run ends at ``--target`` or ``--limit``, on ``--ranks`` ranks, alone on the machine. Presets are interleaved, so
that drift affects all of them. FOLDER receives one JSON file per run; existing files are not run again.
``--evaluate`` then plays 100 games with each run's last weights in four ways, ``--table`` prints
medians, interquartile means and bootstrap intervals, ``--picture`` draws the curves. Run folders stay in ``--runs``.
"""

import json
from pathlib import Path

from pg_mpi.config.errors import UsageError
from pg_mpi.config.parsers import Parser, checked, duration, integer, real, spans
from pg_mpi.files.csv_table import make_folder
from pg_mpi.files.figure_file import check_picture
from pg_mpi.files.run_folder import write_json
from scaling import cli
from scaling.pictures.learning import draw_seeds
from scaling.score import runs_to_score
from scaling.score.learning_curves import summary
from scaling.tables import seeds_table

#: Required keys of a result.
KEYS = {"preset", "seed", "ranks", "above_0", "at_15", "at_18", "rate_above_0_s", "end", "columns", "curve"}
WAYS = tuple((sticky, greedy) for sticky in (0.25, 0.0) for greedy in (False, True))


def parser():
    """Create the argument parser."""
    p = Parser(prog="python -m scaling.score.seeds", description=__doc__.splitlines()[0], allow_abbrev=False)
    p.add_argument("--preset", default="default,fast", help="comma-separated presets (default: default,fast)")
    p.add_argument("--seeds", default="0-4", help="numbers or ranges with commas, such as 0-4 or 17,93 (default: 0-4)")
    p.add_argument("--ranks", default="2", help="ranks of each run (default: 2)")
    p.add_argument("--target", default="18", help="stop at this mean of the last 100 games (default: 18)")
    p.add_argument("--limit", default="00:10:00", help="or after HH:MM:SS (default: 00:10:00)")
    p.add_argument("--out", default="scaling/results/seeds", help="results folder")
    p.add_argument("--runs", default="runs/seeds", help="folder of the run folders")
    p.add_argument("--evaluate", action="store_true", help="play 100 games in four ways with each run's last weights")
    p.add_argument("--table", action="store_true", help="only print the table of the existing results")
    p.add_argument("--picture", metavar="PNG", help="draw the curves of the existing results (extra: plot)")
    p.add_argument("flags", nargs="*", metavar="-- FLAG", help="further flags of pg_mpi.train")
    return p


def main(argv):
    """Run, evaluate or print the table. Returns the exit code."""
    cli.refuse_mpirun()
    args = parser().parse(argv)
    seeds = checked(spans, args.seeds, "--seeds")
    ranks, out, runs = checked(integer(), args.ranks, "--ranks"), Path(args.out), Path(args.runs)
    checked(real(), args.target, "--target")
    checked(duration, args.limit, "--limit")
    if args.picture:
        check_picture(args.picture, "--picture")
    presets = args.preset.split(",")
    for preset in presets:
        runs_to_score.check(_words(preset, 0, args), parser(), args.flags, ranks)
    if not (args.table or args.picture):
        make_folder(args.out)
        make_folder(args.runs, "--runs")
        for seed in seeds:
            for preset in presets:
                result, run = out / f"{preset}-s{seed}.json", runs / f"{preset}-s{seed}"
                attempt(result, run, preset, seed, ranks, args)
                if args.evaluate:
                    evaluate(result, run, ranks)
    results = list(runs_to_score.read(out, KEYS, "scaling.score.seeds").values())
    if not results:
        raise UsageError(f"{out} holds no result: run without --table and --picture to train, or give another --out")
    print(seeds_table(results))
    if args.picture:
        draw_seeds(args.picture, results)
    return 0


def _words(preset, seed, args):
    budgets = ["--target-return", args.target, "--max-walltime", args.limit]
    return ["--preset", preset, "--seed", str(seed), *args.flags, *budgets]


def attempt(result, run, preset, seed, ranks, args):
    """Train once and write the result, unless it exists. Raises ``UsageError`` if that has other settings."""
    words = _words(preset, seed, args)
    if result in (there := runs_to_score.read(result.parent, KEYS, "scaling.score.seeds")):
        told = runs_to_score.with_flags(there[result])
        runs_to_score.check_same(result, told, {"ranks": ranks, "flags": words})
        return
    runs_to_score.train(run, ranks, words, result.parent)
    write_json(str(result), summary(run), indent=None)
    runs_to_score.trained(run)


def evaluate(result, run, ranks):
    """Add the missing ones of four evaluations of a run's last weights to its result."""
    content = json.loads(result.read_text(encoding="utf-8"))
    evaluations = content.setdefault("evaluations", [])
    for sticky, greedy in WAYS[len(evaluations) :]:
        flags = ["--games", "100", "--sticky", str(sticky), "--json", *(["--greedy"] if greedy else [])]
        reply = json.loads(cli.start(ranks, "pg_mpi.evaluate", str(run), *flags).splitlines()[-1])
        kept = ("sticky", "greedy", "games", "seed", "mean", "median", "ci95", "length_mean")
        evaluations.append({key: reply[key] for key in kept})
        write_json(str(result), content, indent=None)


if __name__ == "__main__":
    cli.run(main, goes_on=True)
