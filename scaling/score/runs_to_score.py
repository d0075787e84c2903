"""Runs to a score, one after another, a JSON file each: what ``seeds`` and ``games`` have in common."""

import json
import shlex
import shutil
from pathlib import Path

from pg_mpi.config.command_line import parse_train
from pg_mpi.config.errors import UsageError
from pg_mpi.files.run_folder import write_text
from scaling import cli

#: Settings that each run has of its own.
REFUSED = {"run_dir", "resume", "max_walltime", "target_return", "expect_ranks", "seed", "preset", "env_id"}


def check(words, ours, flags, ranks):
    """Raise ``UsageError`` unless each of ``flags`` is one of training, and ``words`` train on so many ranks."""
    cli.check_flags(flags, ours, REFUSED)
    config, given = parse_train(words)
    config.check(ranks, given)


def train(run, ranks, words, out):
    """Train from scratch into the folder ``run``, whose result is not in ``out`` yet.

    What a stopped call left there begins anew, for its seconds would be torn; ``run``.begun tells it from other runs.
    Raises ``UsageError`` where another run is there, and ``RuntimeError`` if training fails.
    """
    begun = Path(f"{run}.begun")
    if run.exists():
        if not begun.exists():
            raise UsageError(f"{run} is there, and its result is not in {out}: move it away, or give another --runs")
        shutil.rmtree(run)
    write_text(str(begun), f"{out}\n")
    cli.start(ranks, "pg_mpi.train", *words, "--run-dir", str(run), "--resume", "never", codes=(0, 75))


def trained(run):
    """The result of the run in this folder is written: the folder is kept from now on."""
    Path(f"{run}.begun").unlink(missing_ok=True)


def read(folder, keys, tool):
    """The results in a folder by their paths. Raises ``UsageError`` for a file that lacks ``keys``."""
    results = {}
    for path in sorted(Path(folder).glob("*.json")):
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            content = None
        if not isinstance(content, dict) or not keys <= content.keys():
            raise UsageError(f"{path} is no result of python -m {tool}: move it away, or give another --out")
        results[path] = content
    return results


def check_same(path, there, wanted):
    """Raise ``UsageError`` where the result ``there`` has other settings than ``wanted``, as far as it tells them."""
    for name, value in wanted.items():
        if name in there and there[name] != value:
            raise UsageError(f"{path} has {name} {there[name]}, not {value}: give another --out")


def with_flags(result):
    """A result with the ``flags`` of its training's ``command``, apart from those that ``train`` adds."""
    words = iter(shlex.split(result.get("command", ""))[3:])  # python -m pg_mpi.train
    own = ("--run-dir", "--resume")
    return {**result, "flags": [word for word in words if word not in own or not next(words)]}
