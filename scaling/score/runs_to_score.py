"""Shared parts of ``seeds`` and ``games``: runs to a score in turn, one JSON file each."""

import json
import shutil
from pathlib import Path
from typing import NamedTuple

from pg_mpi.config.errors import UsageError
from pg_mpi.config.parsers import integer
from pg_mpi.files.atomic_file import write_json, write_text
from pg_mpi.files.csv_table import make_folder
from scaling import cli

#: Training settings that cannot be given here.
REFUSED = {"run_dir", "resume", "max_walltime", "target_return", "expect_ranks", "seed", "preset", "env_id"}


def add_flags(p, name):
    """Add the flags that both commands share, and return ``p``. ``name``: of the default folders."""
    cli.add_option(p, "--ranks", None, integer(), "ranks of each run", 2)
    p.add_argument("--out", default=f"scaling/results/{name}", help="results folder")
    p.add_argument("--runs", default=f"runs/{name}", help="folder of the run folders")
    p.add_argument("--table", action="store_true", help="only print the table of the existing results")
    p.add_argument("flags", nargs="*", metavar="-- FLAG", help="further flags of pg_mpi.train")
    return p


class Task(NamedTuple):
    """One run: its result file, run folder, preset or env_id, seed, ranks and training flags."""

    result: Path
    run: Path
    name: str
    seed: int
    ranks: int
    words: list


def plan(p, args, names, words):
    """Check the training flags and list a ``Task`` per seed and name, seeds outermost. Raises ``UsageError``.

    ``words(args, name, seed)``: training flags of a run.
    """
    cli.check_flags(args.flags, p, REFUSED)
    for name in names:
        cli.check_training(words(args, name, 0), args.ranks)
    tasks = []
    for seed in args.seeds:
        for name in names:
            label = f"{short(name)}-s{seed}"
            paths = Path(args.out, f"{label}.json"), Path(args.runs, label)
            tasks.append(Task(*paths, name, seed, args.ranks, words(args, name, seed)))
    return tasks


def short(name):
    """The name of a preset or game in file names and tables."""
    return name.rsplit("/", 1)[-1].replace(":", "-")


def attempt(task, wanted, measure, tool, keys, recorded=dict):
    """Train and write the result ``measure(task)``, unless it exists.

    ``recorded(result)``: the settings of an existing result. Raises ``UsageError`` if they differ from ``wanted``.
    """
    path, begun = task.result, Path(f"{task.run}.begun")
    make_folder(path.parent)
    make_folder(task.run.parent, "--runs")
    if path in (there := _read(path.parent, tool, keys)):
        _check_same(path, recorded(there[path]), wanted)
        return
    _train(task, begun)
    write_json(str(path), measure(task), indent=None)
    begun.unlink(missing_ok=True)


def _train(task, begun):
    """Train from scratch into a run folder whose result does not exist yet.

    An interrupted run, marked by the file ``begun``, is deleted and repeated, because its seconds would be wrong.
    Raises ``UsageError`` if the folder holds another run, and ``RuntimeError`` if training fails.
    """
    run, out = task.run, task.result.parent
    if run.exists():
        if not begun.exists():
            raise UsageError(f"{run} exists, but its result is not in {out}: move it away, or give another --runs")
        shutil.rmtree(run)
    write_text(str(begun), f"{out}\n")
    words = [*task.words, "--run-dir", str(run), "--resume", "never"]
    cli.start(task.ranks, "pg_mpi.train", *words, codes=(0, 75))


def evaluation(task, *flags):
    """Play games with a run's last weights: the reply of ``pg_mpi.evaluate``."""
    said = cli.start(task.ranks, "pg_mpi.evaluate", str(task.run), *flags, "--json")
    return json.loads(said.splitlines()[-1])


def results_in(folder, tool, keys, flags):
    """Read the results in a folder. Raises ``UsageError`` if there are none. ``flags``: those that only show them."""
    results = list(_read(folder, tool, keys).values())
    if not results:
        raise UsageError(f"{folder} holds no result: run without {flags} to train, or give another --out")
    return results


def _read(folder, tool, keys):
    """Read the results in a folder, by path. Raises ``UsageError`` for a file that lacks ``keys``."""
    results = {}
    for path in sorted(Path(folder).glob("*.json")):
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            content = None
        if not isinstance(content, dict) or not keys <= content.keys():
            raise UsageError(f"{path} is not a result of python -m {tool}: move it away, or give another --out")
        results[path] = content
    return results


def _check_same(path, there, wanted):
    """Raise ``UsageError`` if the settings ``there`` of a result differ from ``wanted``."""
    for name, value in wanted.items():
        if name in there and there[name] != value:
            raise UsageError(f"{path} has {name} {there[name]}, not {value}: give another --out")
