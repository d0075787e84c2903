"""Measure learning speed over seeds: the same training from scratch with each seed in turn.

    python -m scaling.score.seeds --preset default,fast --seeds 17,93,410 --out FOLDER [-- TRAIN FLAGS]

Each run ends at ``--target`` or ``--limit``, on ``--ranks`` ranks, alone on the machine. Presets are interleaved, so
that drift affects all of them. FOLDER receives one JSON file per run; existing files are not run again.
``--evaluate`` then plays 100 games with each run's last weights in four ways, ``--table`` prints
medians, interquartile means and bootstrap intervals, ``--picture`` draws the curves. Run folders stay in ``--runs``.
"""

import json
import shlex

from pg_mpi.config.parsers import duration, real, spans
from pg_mpi.files.atomic_file import write_json
from pg_mpi.files.figure_file import check_picture
from scaling import cli
from scaling.pictures.score_curves import draw_seeds
from scaling.score import runs_to_score
from scaling.score.learning_curves import summary
from scaling.tables import seeds_table

#: Required keys of a result.
KEYS = {"preset", "seed", "ranks", "above_0", "at_15", "at_18", "rate_above_0_s", "end", "columns", "curve"}
TOOL = ("scaling.score.seeds", KEYS)
WAYS = tuple((sticky, greedy) for sticky in (0.25, 0.0) for greedy in (False, True))


def parser():
    """Create the argument parser."""
    p = cli.parser("scaling.score.seeds", __doc__.splitlines()[0])
    cli.add_option(p, "--preset", None, None, "comma-separated presets", "default,fast")
    cli.add_option(p, "--seeds", None, spans, "numbers or ranges with commas, such as 0-4 or 17,93", "0-4")
    cli.add_option(p, "--target", None, cli.as_text(real()), "stop at this mean of the last 100 games", 18)
    cli.add_option(p, "--limit", None, cli.as_text(duration), "or after HH:MM:SS", "00:10:00")
    p.add_argument("--evaluate", action="store_true", help="play 100 games in four ways with each run's last weights")
    p.add_argument("--picture", metavar="PNG", help="draw the curves of the existing results (extra: plot)")
    return runs_to_score.add_flags(p, "seeds")


def main(argv):
    """Run, evaluate or print the table. Returns the exit code."""
    cli.refuse_mpirun()
    args = parser().parse(argv)
    if args.picture:
        check_picture(args.picture, "--picture")
    tasks = runs_to_score.plan(parser(), args, args.preset.split(","), _words)
    for task in [] if args.table or args.picture else tasks:
        wanted = {"ranks": task.ranks, "flags": task.words}
        runs_to_score.attempt(task, wanted, lambda task: summary(task.run), *TOOL, recorded=with_flags)
        if args.evaluate:
            evaluate(task)
    results = runs_to_score.results_in(args.out, *TOOL, "--table and --picture")
    print(seeds_table(results))
    if args.picture:
        draw_seeds(args.picture, results)
    return 0


def _words(args, preset, seed):
    budgets = ["--target-return", args.target, "--max-walltime", args.limit]
    return ["--preset", preset, "--seed", str(seed), *args.flags, *budgets]


def with_flags(result):
    """Add ``flags`` to a result: those of its ``command``, without the ones that ``runs_to_score`` adds."""
    words = iter(shlex.split(result.get("command", ""))[3:])  # python -m pg_mpi.train
    own = ("--run-dir", "--resume")
    return {**result, "flags": [word for word in words if word not in own or not next(words)]}


def evaluate(task):
    """Add the missing ones of four evaluations of a run's last weights to its result."""
    content = json.loads(task.result.read_text(encoding="utf-8"))
    evaluations = content.setdefault("evaluations", [])
    for sticky, greedy in WAYS[len(evaluations) :]:
        way = ["--greedy"] if greedy else []
        reply = runs_to_score.evaluation(task, "--games", "100", "--sticky", str(sticky), *way)
        kept = ("sticky", "greedy", "games", "seed", "mean", "median", "ci95", "length_mean")
        evaluations.append({key: reply[key] for key in kept})
        write_json(str(task.result), content, indent=None)


if __name__ == "__main__":
    cli.run(main, goes_on=True)
