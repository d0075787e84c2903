"""Shared parts of ``seeds`` and ``games``: runs to a score in turn, one JSON file each."""

import json
import shlex
import shutil
from pathlib import Path

from pg_mpi.config.command_line import parse_train
from pg_mpi.config.errors import UsageError
from pg_mpi.files.run_folder import write_text
from scaling import cli

#: Training settings that cannot be given here.
REFUSED = {"run_dir", "resume", "max_walltime", "target_return", "expect_ranks", "seed", "preset", "env_id"}


def check(words, ours, flags, ranks):
    """Raise ``UsageError`` unless ``flags`` are training flags and ``words`` are valid on ``ranks`` ranks."""
    cli.check_flags(flags, ours, REFUSED)
    config, given = parse_train(words)
    config.check(ranks, given)


def train(run, ranks, words, out):
    """Train from scratch into the folder ``run``, whose result is not in ``out`` yet.

    An interrupted run, marked by ``run``.begun, is deleted and repeated, because its seconds would be wrong.
    Raises ``UsageError`` if the folder holds another run, and ``RuntimeError`` if training fails.
    """
    begun = Path(f"{run}.begun")
    if run.exists():
        if not begun.exists():
            raise UsageError(f"{run} exists, but its result is not in {out}: move it away, or give another --runs")
        shutil.rmtree(run)
    write_text(str(begun), f"{out}\n")
    cli.start(ranks, "pg_mpi.train", *words, "--run-dir", str(run), "--resume", "never", codes=(0, 75))


def trained(run):
    """Keep the folder of a run whose result is written."""
    Path(f"{run}.begun").unlink(missing_ok=True)


def read(folder, keys, tool):
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


def check_same(path, there, wanted):
    """Raise ``UsageError`` if the result ``there`` records settings other than ``wanted``."""
    for name, value in wanted.items():
        if name in there and there[name] != value:
            raise UsageError(f"{path} has {name} {there[name]}, not {value}: give another --out")


def with_flags(result):
    """Add ``flags`` to a result: those of its ``command``, without the ones that ``train`` adds."""
    words = iter(shlex.split(result.get("command", ""))[3:])  # python -m pg_mpi.train
    own = ("--run-dir", "--resume")
    return {**result, "flags": [word for word in words if word not in own or not next(words)]}
