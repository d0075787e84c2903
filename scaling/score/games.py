"""Train other games and environments and score them: ``python -m scaling.score.games``.

Each is trained from scratch with several seeds in turn, for a fixed time or to a score. Then the last weights and a
random policy play full games. The table lists published scores beside them. Each run writes one JSON file; existing
files are not run again.
"""

import json
import shutil
import statistics
import sys
from pathlib import Path
from typing import NamedTuple

from pg_mpi.config.errors import UsageError
from pg_mpi.config.parsers import duration, integer, real, span
from pg_mpi.files.atomic_file import write_json, write_text
from pg_mpi.files.csv_table import make_folder
from pg_mpi.mpi.launch.mpirun import mpirun_command
from scaling import cli
from scaling.measure import timed_run
from scaling.score.learning_curves import read_start
from scaling.tables import markdown

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
#: Training settings that cannot be given here.
REFUSED = {"run_dir", "resume", "max_walltime", "target_return", "expect_ranks", "seed", "preset", "env_id"}


def parser():
    """Create the argument parser."""
    p = cli.parser("scaling.score.games", __doc__.splitlines()[0])
    cli.add_option(p, "--games", "ID,ID", None, "Gymnasium ids", DEFAULT)
    cli.add_option(p, "--preset", None, None, "preset of the training", "default")
    cli.add_option(p, "--seeds", None, span, "FIRST-LAST", "0-2")
    cli.add_option(p, "--limit", None, cli.as_text(duration), "training time of each run", "00:10:00")
    cli.add_option(p, "--target", None, cli.as_text(real()), "stop earlier at this mean of the last 100 games")
    cli.add_option(p, "--played", None, integer(), "games played to score a policy", 30)
    cli.add_option(p, "--ranks", None, integer(), "ranks of each run", 2)
    p.add_argument("--out", default="scaling/results/games", help="results folder")
    p.add_argument("--runs", default="runs/games", help="folder of the run folders")
    p.add_argument("--table", action="store_true", help="only print the table of the existing results")
    p.add_argument("flags", nargs="*", metavar="-- FLAG", help="further flags of pg_mpi.train")
    return p


def main(argv):
    """Train and score the missing runs and report. Returns the exit code."""
    cli.refuse_mpirun()
    args = parser().parse(argv)
    cli.check_flags(args.flags, parser(), REFUSED)
    games = args.games.split(",")
    for game in games:
        cli.check_training(words_of(args, game, 0), args.ranks)
    facts = cli.facts("scaling.score.games", argv)
    if not args.table:
        make_folder(args.out)
        make_folder(args.runs, "--runs")
        for seed in args.seeds:
            for game in games:
                attempt(task_of(args, game, seed), args, facts)
    results = read_results(args.out)
    if not results:
        raise UsageError(f"{args.out} holds no result: run without --table to train, or give another --out")
    print(table(list(results.values())))
    return 0


class Task(NamedTuple):
    """One run: its result file, run folder, file that marks it as begun, and training flags."""

    result: Path
    run: Path
    begun: Path
    game: str
    seed: int
    words: list


def task_of(args, game, seed):
    """The ``Task`` of a game and a seed."""
    label = f"{short(game)}-s{seed}"
    paths = (Path(args.out, f"{label}.json"), Path(args.runs, label), Path(args.runs, f"{label}.begun"))
    return Task(*paths, game, seed, words_of(args, game, seed))


def words_of(args, game, seed):
    """Training flags of a run."""
    words = ["--env-id", game, "--preset", args.preset, "--seed", str(seed), "--max-walltime", args.limit]
    return [*words, *([] if args.target is None else ["--target-return", args.target]), *args.flags]


def short(game):
    """The name of a game in file names and tables."""
    return game.rsplit("/", 1)[-1].replace(":", "-")


def attempt(task, args, facts):
    """Train, score and write the result, unless it exists. Raises ``UsageError`` if it has other settings."""
    wanted = {"env_id": task.game, "preset": args.preset, "ranks": args.ranks, "flags": task.words}
    if there := read_results(args.out).get(task.result):
        for name, value in wanted.items():
            if there.get(name, value) != value:
                raise UsageError(f"{task.result} has {name} {there[name]}, not {value}: give another --out")
        return
    train(task, args)
    write_json(str(task.result), {**score(task, args), "flags": task.words, **facts}, indent=None)
    task.begun.unlink(missing_ok=True)


def train(task, args):
    """Train from scratch into a run folder whose result does not exist yet.

    An interrupted run, marked as begun, is deleted and repeated, because its seconds would be wrong. Raises
    ``UsageError`` if the folder holds another run, and ``RuntimeError`` if training fails.
    """
    if task.run.exists():
        if not task.begun.exists():
            raise UsageError(
                f"{task.run} exists, but its result is not in {args.out}: move it away, or give another --runs"
            )
        shutil.rmtree(task.run)
    write_text(str(task.begun), f"{args.out}\n")
    words = [*task.words, "--run-dir", str(task.run), "--resume", "never"]
    start(args.ranks, "pg_mpi.train", *words, codes=(0, timed_run.STOPPED))


def start(ranks, *words, codes=(0,)):
    """Run a module on some ranks and return its output. Raises ``RuntimeError`` for exit codes not in ``codes``."""
    command = [*mpirun_command(ranks), sys.executable, "-m", *words]
    print("$", " ".join(["mpirun", "-n", str(ranks), "python", "-m", *words]), file=sys.stderr, flush=True)
    code, output, _ = timed_run.run(command, show_errors=True)
    if code not in codes:
        raise RuntimeError(f"exit code {code} of {' '.join(words[:3])} ...")
    return output


def score(task, args):
    """Final metrics of a run, and scores of its last weights and of a random policy: a dict."""
    last = timed_run.read_metrics(task.run)[-1]
    settings, began, _ = read_start(task.run)
    own = [word for name in (task.game, settings["policy"]) if ":" in name for word in ("--own", name)]
    scores = {}
    for kind, way in (("trained", []), ("random", ["--random"])):
        words = (str(task.run), "--games", str(args.played), *way, *own, "--json")
        reply = json.loads(start(args.ranks, "pg_mpi.evaluate", *words).splitlines()[-1])
        scores[kind] = {key: reply[key] for key in ("mean", "median", "ci95", "games", "length_mean")}
    reached = args.target is not None and last["games"] >= 100 and last["return_mean"] >= float(args.target)
    setup = {"env_id": task.game, "seed": task.seed, "preset": args.preset, "reached": reached, "mpi": began["mpi"]}
    kept = {key: last[key] for key in ("wall_s", "env_steps", "games", "return_mean", "sps_total", "ranks")}
    return {**setup, **kept, **scores}


def read_results(folder):
    """Read the results in a folder, by path. Raises ``UsageError`` for a file that lacks ``KEYS``."""
    results = {}
    for path in sorted(Path(folder).glob("*.json")):
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            content = None
        if not isinstance(content, dict) or not content.keys() >= KEYS:
            raise UsageError(
                f"{path} is not a result of python -m scaling.score.games: move it away, or give another --out"
            )
        results[path] = content
    return results


def table(results):
    """Table with one row per game: median over seeds, lowest to highest."""
    columns = ("trained", "while learning", "random, here", "random, human (published)", "steps, thousands", "seconds")
    rows = [("game", *columns)]
    for name in sorted({result["env_id"] for result in results}):
        found = [result for result in results if result["env_id"] == name]
        trained, chance = ([each[kind]["mean"] for each in found] for kind in ("trained", "random"))
        learning = [each["return_mean"] for each in found if each["return_mean"] is not None]
        published = ", ".join(f"{score:g}" for score in PUBLISHED[name]) if name in PUBLISHED else "-"
        steps = statistics.median(each["env_steps"] for each in found) / 1e3
        scores = (*map(_spread, (trained, learning, chance)), published)
        seconds = _spread([each["wall_s"] for each in found])
        rows.append((f"{short(name)}, {len(found)} seeds", *scores, f"{steps:,.0f}", seconds))
    return markdown(rows)


def _spread(values):
    if not values:
        return "no game ended"
    return f"{statistics.median(values):,.1f} ({min(values):,.1f} to {max(values):,.1f})"


if __name__ == "__main__":
    cli.run(main, goes_on=True)
