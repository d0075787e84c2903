"""What runs are doing, from their folders alone: ``python -m pg_mpi.status runs/*``."""

import calendar
import json
import os
import sys
import time
from typing import Any, NamedTuple

from pg_mpi.config.errors import SystemFault, UsageError, counted, system_faults
from pg_mpi.config.parsers import Parser
from pg_mpi.files.atomic_file import exists
from pg_mpi.files.folder_lock import is_held
from pg_mpi.files.metrics_file import clock, last_line, time_left
from pg_mpi.mpi import process

RUNNING, FINISHED, STOPPED, KILLED = "running", "finished", "stopped", "killed"


def parser() -> Parser:
    """The command line."""
    p = Parser(
        prog="python -m pg_mpi.status",
        description="One line for each run: whether it runs, how far it is, when it ends or why it ended.",
        epilog="Only the run folders are read, so it works for jobs on other machines that share them. killed: "
        "the lock is free, and no reason for the end was written; where the file system has no locks, such a run "
        "counts as running. The same command resumes a stopped or killed run.",
    )
    p.add_argument("runs", nargs="+", metavar="RUN", help="run folders, such as runs/*; other folders are left out")
    return p


class Run(NamedTuple):
    """What a run folder says.

    Attributes:
        state: one of ``RUNNING``, ``FINISHED``, ``STOPPED``, ``KILLED``.
        settings: of ``config.json``.
        start: facts of the newest start.
        last: the last line of ``metrics.jsonl``; empty before the first update.
    """

    state: str
    settings: dict[str, Any]
    start: dict[str, Any]
    last: dict[str, Any]


def main(argv: list[str]) -> int:
    """Print the lines; returns the exit code. Raises ``UsageError`` if no folder is a run's."""
    folders = parser().parse(argv).runs
    lines = {folder: line for folder in folders if (line := describe(folder))}
    if not lines:
        raise UsageError(f"{folders[0]} holds no config.json: give run folders, such as runs/*")
    width = max(map(len, lines))
    for folder, line in lines.items():
        print(f"{folder:{width}}  {line}")
    return 0


def describe(folder: str) -> str | None:
    """The line of a folder; None if it is not a run's."""
    try:
        run = read(folder)
        return line_of(run, time.time()) if run else None
    except SystemFault as error:
        return f"unreadable  {error}"
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError, RecursionError):
        return "damaged   its config.json or metrics.jsonl is not of this version"


def read(folder: str) -> Run | None:
    """Read a run folder; None if it is not one. Raises ValueError, KeyError and others for malformed files."""
    path = os.path.join(folder, "config.json")
    held = exists(path) and is_held(folder)  # first, for the run may end meanwhile
    with system_faults(f"{path} cannot be read"):
        try:
            with open(path, encoding="utf-8") as file:
                content = json.load(file)
            settings, start = dict(content["settings"]), dict(content["starts"][-1])
        except (FileNotFoundError, NotADirectoryError):
            return None
        last = last_line(os.path.join(folder, "metrics.jsonl"))
        done = exists(os.path.join(folder, "DONE"))
    state = FINISHED if done else STOPPED if start.get("ended") else RUNNING if held or is_held(folder) else KILLED
    return Run(state, settings, start, last)


def line_of(run: Run, now: float) -> str:
    """Describe a run at the time ``now``, seconds since 1970."""
    last = run.last
    parts = [f"{run.state:8}"]
    if last:
        mean = last.get("return_mean")
        score = "no game finished" if mean is None else f"mean {mean:+.2f}"
        parts.append(f"{last['env_steps']:,} steps  {score}  {clock(last['wall_s'])} trained")
    if run.state == RUNNING:
        parts.append(f"{last['sps']:,.0f} steps/s on {counted(last['ranks'], 'rank')}" if last else "no update yet")
        parts += _end(run, now)
    else:
        parts.append(run.start.get("ended", {}).get("reason", f"started at {run.start.get('time')}"))
    return "  ".join(parts)


def _end(run: Run, now: float) -> list[str]:
    """When a running run ends, by its nearest budget; empty without one."""
    spent = now - calendar.timegm(time.strptime(run.start["time"], "%Y-%m-%dT%H:%M:%SZ"))
    budgets = run.settings.get("max_walltime"), run.settings.get("total_timesteps")
    parts = time_left(budgets[0], spent, budgets[1], run.last.get("env_steps", 0), run.last.get("sps", 0.0))
    if (target := run.settings.get("target_return")) is not None:
        parts.append(f"until the mean is {target:g}")
    return parts


if __name__ == "__main__":
    process.run_alone(main, sys.argv[1:])
