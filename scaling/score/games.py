"""Train other games and environments and score them: ``python -m scaling.score.games``.

Each is trained from scratch with several seeds in turn, for a fixed time or to a score. Then the last weights and a
random policy play full games. Each run writes one JSON file; existing files are not run again.
"""

import json
import statistics
import sys
from pathlib import Path

from pg_mpi.config.command_line import refuse
from pg_mpi.config.errors import RunError, UsageError
from pg_mpi.config.parsers import duration, integer, real, spans
from pg_mpi.config.presets import own_flags
from pg_mpi.env import registry
from pg_mpi.files.atomic_file import write_json
from pg_mpi.files.csv_table import make_folder
from pg_mpi.mpi.launch.mpirun import mpirun_command
from scaling import cli
from scaling.measure import timed_run
from scaling.score.learning_curves import read_start
from scaling.tables import markdown

GAMES = ["Asterix", "BeamRider", "Boxing", "Breakout", "Freeway", "Qbert", "Seaquest", "SpaceInvaders"]
DEFAULT = ",".join(f"ALE/{name}-v5" for name in GAMES)
#: Training settings that every run is given, and all that cannot be given here.
GIVEN = {"max_walltime", "seed", "preset", "env_id"}
REFUSED = {"run_dir", "resume", "target_return", "expect_ranks", *GIVEN}


def parser():
    """Create the argument parser."""
    p = cli.parser("scaling.score.games", __doc__.splitlines()[0])
    cli.add_option(p, "--games", "ID,ID", None, "Gymnasium ids", DEFAULT)
    cli.add_option(p, "--preset", None, None, "preset of the training", "default")
    cli.add_option(p, "--seeds", None, spans, "numbers or ranges with commas", "0-2")
    cli.add_option(p, "--limit", None, duration, "training time of each run", "00:10:00")
    cli.add_option(p, "--target", None, real(), "stop earlier at this mean of the last 100 games")
    cli.add_option(p, "--played", None, integer(), "games played to score a policy", 30)
    cli.add_option(p, "--ranks", None, integer(), "ranks of each run", 2)
    p.add_argument("--out", default="runs/games", help="results folder")
    p.add_argument("flags", nargs="*", metavar="-- FLAG", help="further flags of pg_mpi.train")
    return p


def main(argv):
    """Train and score the missing runs and report. Returns the exit code."""
    args = parser().parse(argv)
    games = args.games.split(",")
    cli.check_flags(args.flags, parser(), REFUSED)
    for game in games:
        config, _ = cli.check_training(words_of(args, game, 0), args.ranks)
        refuse(config, REFUSED - GIVEN - ({"target_return"} if args.target is not None else set()))
        registry.check(config)
    facts = cli.facts("scaling.score.games", argv)
    make_folder(args.out)
    results = [attempt(game, seed, args, facts) for seed in args.seeds for game in games]
    print(table(results))
    return 0


def words_of(args, game, seed):
    """Training flags of a run."""
    words = ["--env-id", game, "--preset", args.preset, "--seed", str(seed), "--max-walltime", str(args.limit)]
    return [*words, *([] if args.target is None else ["--target-return", str(args.target)]), *args.flags]


def short(game):
    """The name of a game in file names and tables."""
    return game.rsplit("/", 1)[-1].replace(":", "-")


def attempt(game, seed, args, facts):
    """Train, score and write the result, unless it exists; return it. An interrupted run is repeated from the start.

    Raises ``UsageError`` if the result has other settings, or is missing beside its run folder; ``RunError`` if
    training fails.
    """
    label, words = f"{short(game)}-s{seed}", words_of(args, game, seed)
    place = Path(args.out, f"{label}.json")
    settings = cli.check_training(words, args.ranks)[0].identity()
    same = {"ranks": args.ranks, "played": args.played, "flags": words, "settings": settings}
    if found := cli.read_parts(args.out, same, place.name):
        return found[0]
    run = place.with_suffix("")
    if run.exists():
        raise UsageError(f"{run} exists without its result {place.name}: move it away, or give another --out")
    cli.say(f"{label}: training")
    with timed_run.trained(args.ranks, words, args.limit, keep=run) as folder:
        result = {"env_id": game, "seed": seed, "preset": args.preset, **score(folder, args)}
        result |= {**same, **facts}
        write_json(str(place), result, indent=None)
    return result


def score(run, args):
    """Final metrics of a run, and scores of its last weights and of a random policy: a dict."""
    last = timed_run.read_metrics(run)[-1]
    settings, began = read_start(run)
    kept = {key: last[key] for key in ("wall_s", "env_steps", "games", "return_mean", "sps_total", "ranks")}
    ranks, words = min(args.ranks, args.played), [str(run), "--games", str(args.played), *own_flags(settings)]
    scores = {"trained": evaluate(ranks, *words), "random": evaluate(ranks, *words, "--random")}
    return {"mpi": began["mpi"], **kept, **scores}


def evaluate(ranks, *words):
    """Scores of full games by ``pg_mpi.evaluate`` on some ranks: a dict. Raises ``RunError`` if it fails."""
    command = [*mpirun_command(ranks), sys.executable, "-m", "pg_mpi.evaluate", *words, "--json"]
    code, output, _ = timed_run.run(command, show_errors=True)
    if code:
        raise RunError(f"exit code {code} of pg_mpi.evaluate {words[0]}")
    reply = json.loads(output.splitlines()[-1])
    return {key: reply[key] for key in ("mean", "median", "ci95", "games", "length_mean")}


def table(results):
    """Table with one row per game: median over seeds, lowest to highest."""
    columns = ("trained", "while learning", "random", "steps, thousands", "seconds")
    rows = [("game", *columns)]
    for name in sorted({result["env_id"] for result in results}):
        found = [result for result in results if result["env_id"] == name]
        trained, chance = ([each[kind]["mean"] for each in found] for kind in ("trained", "random"))
        learning = [each["return_mean"] for each in found if each["return_mean"] is not None]
        steps = statistics.median(each["env_steps"] for each in found) / 1e3
        scores = map(_spread, (trained, learning, chance))
        seconds = _spread([each["wall_s"] for each in found])
        rows.append((f"{short(name)}, {len(found)} seeds", *scores, f"{steps:,.0f}", seconds))
    return markdown(rows)


def _spread(values):
    if not values:
        return "no game ended"
    return f"{statistics.median(values):,.1f} ({min(values):,.1f} to {max(values):,.1f})"


if __name__ == "__main__":
    cli.run(main, resumable=True)
