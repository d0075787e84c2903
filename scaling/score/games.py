"""Train other games and environments and score them: ``python -m scaling.score.games``.

Each is trained from scratch with several seeds in turn, for a fixed time or to a score. Then the last weights and a
random policy play full games. The table lists published scores beside them. Each run writes one JSON file; existing
files are not run again.
"""

import json
import statistics
from pathlib import Path

from pg_mpi.config.errors import UsageError
from pg_mpi.config.parsers import Parser, checked, duration, integer, real, span
from pg_mpi.files.csv_table import make_folder
from pg_mpi.files.run_folder import write_json
from scaling import cli
from scaling.measure.timed_run import read_metrics
from scaling.score import runs_to_score

#: (random, human) by Mnih et al., "Human-level control through deep reinforcement learning" (2015), extended data
#: table 2: without sticky actions, games of at most five minutes.
PUBLISHED = {
    "ALE/Boxing-v5": (0.1, 4.3),
    "ALE/Breakout-v5": (1.7, 31.8),
    "ALE/Freeway-v5": (0.0, 29.6),
    "ALE/Pong-v5": (-20.7, 9.3),
    "ALE/SpaceInvaders-v5": (148, 1652),
}
#: Required keys of a result.
KEYS = {"env_id", "seed", "preset", "ranks", "wall_s", "env_steps", "return_mean", "trained", "random"}
DEFAULT = "ALE/Breakout-v5,ALE/Freeway-v5,ALE/Boxing-v5,ALE/SpaceInvaders-v5"


def parser():
    """Create the argument parser."""
    p = Parser(prog="python -m scaling.score.games", description=__doc__.splitlines()[0], allow_abbrev=False)
    p.add_argument("--games", default=DEFAULT, metavar="ID,ID", help=f"Gymnasium ids (default: {DEFAULT})")
    p.add_argument("--preset", default="default", help="preset of the training (default: default)")
    p.add_argument("--seeds", default="0-2", help="FIRST-LAST (default: 0-2)")
    p.add_argument("--ranks", default="2", help="ranks of each run (default: 2)")
    p.add_argument("--limit", default="00:10:00", help="training time of each run (default: 00:10:00)")
    p.add_argument("--target", help="stop earlier at this mean of the last 100 games")
    p.add_argument("--played", default="30", help="games played to score a policy (default: 30)")
    p.add_argument("--out", default="scaling/results/games", help="results folder")
    p.add_argument("--runs", default="runs/games", help="folder of the run folders")
    p.add_argument("--table", action="store_true", help="only print the table of the existing results")
    p.add_argument("flags", nargs="*", metavar="-- FLAG", help="further flags of pg_mpi.train")
    return p


def main(argv):
    """Train and score the missing runs and report. Returns the exit code."""
    cli.refuse_mpirun()
    args = parser().parse(argv)
    seeds, ranks = checked(span, args.seeds, "--seeds"), checked(integer(), args.ranks, "--ranks")
    checked(duration, args.limit, "--limit")
    checked(integer(), args.played, "--played")
    out = Path(args.out)
    names = args.games.split(",")
    if args.target is not None:
        checked(real(), args.target, "--target")
    for name in names:
        runs_to_score.check(_words(name, 0, args), parser(), args.flags, ranks)
    facts = cli.facts("scaling.score.games", argv)
    if not args.table:
        make_folder(args.out)
        make_folder(args.runs, "--runs")
        for seed in seeds:
            for name in names:
                attempt(out / f"{_short(name)}-s{seed}.json", name, seed, ranks, args, facts)
    results = list(runs_to_score.read(out, KEYS, "scaling.score.games").values())
    if not results:
        raise UsageError(f"{out} holds no result: run without --table to train, or give another --out")
    print(table(results))
    return 0


def _words(name, seed, args):
    words = ["--env-id", name, "--preset", args.preset, "--seed", str(seed), "--max-walltime", args.limit]
    return [*words, *([] if args.target is None else ["--target-return", args.target]), *args.flags]


def attempt(result, name, seed, ranks, args, facts):
    """Train and score one game, unless its result exists. Raises ``UsageError`` if that has other settings."""
    words = _words(name, seed, args)
    wanted = {"env_id": name, "preset": args.preset, "ranks": ranks, "flags": words}
    if result in (there := runs_to_score.read(result.parent, KEYS, "scaling.score.games")):
        runs_to_score.check_same(result, there[result], wanted)
        return
    run = Path(args.runs) / f"{_short(name)}-s{seed}"
    runs_to_score.train(run, ranks, words, result.parent)
    write_json(str(result), {**score(run, name, seed, ranks, args), "flags": words, **facts}, indent=None)
    runs_to_score.trained(run)


def score(run, name, seed, ranks, args):
    """Final metrics of a run, and scores of its last weights and of a random policy: a dict."""
    last = read_metrics(run)[-1]
    first = json.loads((run / "config.json").read_text(encoding="utf-8"))["starts"][0]
    settings = json.loads((run / "config.json").read_text(encoding="utf-8"))["settings"]
    own = [word for name in (name, settings["policy"]) if ":" in name for word in ("--own", name)]
    scores = {}
    for kind, way in (("trained", []), ("random", ["--random"])):
        said = cli.start(ranks, "pg_mpi.evaluate", str(run), "--games", args.played, *way, *own, "--json")
        reply = json.loads(said.splitlines()[-1])
        scores[kind] = {key: reply[key] for key in ("mean", "median", "ci95", "games", "length_mean")}
    kept = {key: last[key] for key in ("wall_s", "env_steps", "games", "return_mean", "sps_total", "ranks")}
    reached = args.target is not None and last["games"] >= 100 and last["return_mean"] >= float(args.target)
    return {
        "env_id": name,
        "seed": seed,
        "preset": args.preset,
        "reached": reached,
        "mpi": first["mpi"],
        **kept,
        **scores,
    }


def table(results):
    """Table with one row per game: median over seeds, lowest to highest."""
    lines = [
        "| game | trained | while learning | random, here | random, human (published) | steps, thousands | seconds |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in sorted({result["env_id"] for result in results}):
        found = [result for result in results if result["env_id"] == name]
        trained, chance = ([each[kind]["mean"] for each in found] for kind in ("trained", "random"))
        published = ", ".join(f"{score:g}" for score in PUBLISHED[name]) if name in PUBLISHED else "-"
        steps = statistics.median(each["env_steps"] for each in found) / 1e3
        seconds = _spread([each["wall_s"] for each in found])
        learning = [each["return_mean"] for each in found if each["return_mean"] is not None]
        lines.append(
            f"| {_short(name)}, {len(found)} seeds | {_spread(trained)} | {_spread(learning)} | {_spread(chance)} | "
            f"{published} | {steps:,.0f} | {seconds} |"
        )
    return "\n".join(lines)


def _spread(values):
    if not values:
        return "no game ended"
    return f"{statistics.median(values):,.1f} ({min(values):,.1f} to {max(values):,.1f})"


def _short(name):
    return name.rsplit("/", 1)[-1].replace(":", "-")


if __name__ == "__main__":
    cli.run(main, goes_on=True)
