"""Train other games and environments and score them: ``python -m scaling.score.games``.

Each is trained from scratch with several seeds in turn, for a fixed time or to a score. Then the last weights and a
random policy play full games. The table lists published scores beside them. Each run writes one JSON file; existing
files are not run again.
"""

import statistics

from pg_mpi.config.parsers import duration, integer, real, span
from scaling import cli
from scaling.measure.timed_run import read_metrics
from scaling.score import runs_to_score
from scaling.score.learning_curves import read_start
from scaling.score.runs_to_score import short

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
TOOL = ("scaling.score.games", KEYS)
DEFAULT = "ALE/Breakout-v5,ALE/Freeway-v5,ALE/Boxing-v5,ALE/SpaceInvaders-v5"


def parser():
    """Create the argument parser."""
    p = cli.parser("scaling.score.games", __doc__.splitlines()[0])
    cli.add_option(p, "--games", "ID,ID", None, "Gymnasium ids", DEFAULT)
    cli.add_option(p, "--preset", None, None, "preset of the training", "default")
    cli.add_option(p, "--seeds", None, span, "FIRST-LAST", "0-2")
    cli.add_option(p, "--limit", None, cli.as_text(duration), "training time of each run", "00:10:00")
    cli.add_option(p, "--target", None, cli.as_text(real()), "stop earlier at this mean of the last 100 games")
    cli.add_option(p, "--played", None, integer(), "games played to score a policy", 30)
    return runs_to_score.add_flags(p, "games")


def main(argv):
    """Train and score the missing runs and report. Returns the exit code."""
    cli.refuse_mpirun()
    args = parser().parse(argv)
    tasks = runs_to_score.plan(parser(), args, args.games.split(","), _words)
    facts = cli.facts("scaling.score.games", argv)
    for task in [] if args.table else tasks:
        wanted = {"env_id": task.name, "preset": args.preset, "ranks": task.ranks, "flags": task.words}
        runs_to_score.attempt(task, wanted, lambda task: {**score(task, args), "flags": task.words, **facts}, *TOOL)
    print(table(runs_to_score.results_in(args.out, *TOOL, "--table")))
    return 0


def _words(args, name, seed):
    words = ["--env-id", name, "--preset", args.preset, "--seed", str(seed), "--max-walltime", args.limit]
    return [*words, *([] if args.target is None else ["--target-return", args.target]), *args.flags]


def score(task, args):
    """Final metrics of a run, and scores of its last weights and of a random policy: a dict."""
    last = read_metrics(task.run)[-1]
    settings, start, _ = read_start(task.run)
    own = [word for name in (task.name, settings["policy"]) if ":" in name for word in ("--own", name)]
    scores = {}
    for kind, way in (("trained", []), ("random", ["--random"])):
        reply = runs_to_score.evaluation(task, "--games", str(args.played), *way, *own)
        scores[kind] = {key: reply[key] for key in ("mean", "median", "ci95", "games", "length_mean")}
    reached = args.target is not None and last["games"] >= 100 and last["return_mean"] >= float(args.target)
    setup = {"env_id": task.name, "seed": task.seed, "preset": args.preset, "reached": reached, "mpi": start["mpi"]}
    kept = {key: last[key] for key in ("wall_s", "env_steps", "games", "return_mean", "sps_total", "ranks")}
    return {**setup, **kept, **scores}


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
            f"| {short(name)}, {len(found)} seeds | {_spread(trained)} | {_spread(learning)} | {_spread(chance)} | "
            f"{published} | {steps:,.0f} | {seconds} |"
        )
    return "\n".join(lines)


def _spread(values):
    if not values:
        return "no game ended"
    return f"{statistics.median(values):,.1f} ({min(values):,.1f} to {max(values):,.1f})"


if __name__ == "__main__":
    cli.run(main, goes_on=True)
