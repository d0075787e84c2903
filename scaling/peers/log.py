"""Output of every runner: JSON lines of scores, and a JSON file of settings and versions."""

import argparse
import importlib.metadata
import json
import os
import platform
import time
from collections import deque
from pathlib import Path

from scaling.peers import START

WINDOW = 100  # games per mean
INTERVAL = 5.0  # seconds between lines


def arguments(description):
    """Create the parser that all runners share."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--seconds", type=float, required=True, help="wall-clock budget, start-up included")
    parser.add_argument("--out", type=Path, required=True, help="JSON lines; settings go to the .json file beside it")
    parser.add_argument("--seed", type=int, default=0)
    return parser


def cores():
    """Number of hardware threads that this process may use (Linux)."""
    return len(os.sched_getaffinity(0))


def cpu():
    """The processor's name (Linux)."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def versions(*packages):
    """Versions of Python and of installed packages."""
    return {"python": platform.python_version(), **{name: importlib.metadata.version(name) for name in packages}}


class Log:
    """Lines of one run. Scores are those of whole games, -21 to 21, independent of the training reward."""

    def __init__(self, args, **about):
        """``about``: name, settings and versions, as the README's tables show them."""
        self._scores, self._games, self._seconds = deque(maxlen=WINDOW), 0, args.seconds
        self._written, self._due = -1, 0.0
        args.out.parent.mkdir(parents=True, exist_ok=True)
        about |= {"seconds": args.seconds, "seed": args.seed, "cores": cores(), "cpu": cpu()}
        args.out.with_suffix(".json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
        self._file = open(args.out, "w", encoding="utf-8")  # noqa: SIM115 held until the process ends

    def game(self, score):
        """Record the score of a finished game."""
        self._scores.append(float(score))
        self._games += 1

    def steps(self, env_steps):
        """Record ``env_steps`` agent steps over all envs. Returns True when the budget is spent."""
        mean = sum(self._scores) / len(self._scores) if self._scores else None
        return self.line(env_steps, mean, self._games)

    def line(self, env_steps, return_mean, games):
        """Write a line if there are new steps and ``INTERVAL`` has passed. Returns True when the budget is spent."""
        wall = time.perf_counter() - START
        over = wall >= self._seconds
        if env_steps > self._written and (over or wall >= self._due):
            line = {"wall_s": round(wall, 2), "env_steps": env_steps, "return_mean": return_mean, "games": games}
            self._file.write(json.dumps(line) + "\n")
            self._file.flush()
            self._written, self._due = env_steps, wall + INTERVAL
        return over
