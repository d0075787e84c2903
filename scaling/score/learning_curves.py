"""Learning speed of a run folder: times to a score, a thinned curve."""

import json
from pathlib import Path

from pg_mpi.files.provenance import command_line
from scaling.measure.timed_run import read_metrics

WINDOW = 100  # games; a mean over fewer does not count
POINTS = 60  # of a thinned curve
COLUMNS = ("wall_s", "env_steps", "games", "return_mean", "length_mean", "entropy", "approx_kl", "rss_mb")


def read_start(run):
    """(settings, facts of the first start) of a run folder."""
    config = json.loads((Path(run) / "config.json").read_text(encoding="utf-8"))
    return config["settings"], config["starts"][0]


def time_to(lines, target, strictly):
    """Costs when the mean of the last 100 games first reached ``target``, a dict; None if never.

    Args:
        strictly: True for "above ``target``", False for "at least ``target``".
    """
    for line in lines:
        mean = line["return_mean"]
        if line["games"] >= WINDOW and (mean > target if strictly else mean >= target):
            return costs(line)
    return None


def costs(line):
    """Time, steps and games of a run up to one of its metrics lines."""
    return {name: line[name] for name in ("wall_s", "env_steps", "frames", "games")}


def thin(lines):
    """Select about ``POINTS`` lines of a run and its last, as rows of ``COLUMNS``."""
    every = max(1, len(lines) // POINTS)
    kept = [*lines[every - 1 : -1 : every], lines[-1]]
    return [[_short(line[column]) for column in COLUMNS] for line in kept]


def summary(run):
    """Summarise a run folder: a JSON-able dict."""
    settings, start = read_start(run)
    lines = read_metrics(run)
    last = lines[-1]
    return {
        **{name: settings[name] for name in ("preset", "seed")},
        **{name: start[name] for name in ("ranks", "commit", "versions", "mpi", "time")},
        "command": command_line("pg_mpi.train", start["command"][1:]),
        "above_0": time_to(lines, 0.0, strictly=True),
        "at_15": time_to(lines, 15.0, strictly=False),
        "at_18": time_to(lines, 18.0, strictly=False),
        "end": costs(last) | {key: last[key] for key in ("return_mean", "sps_total", "rss_mb", "exchanges")},
        "columns": list(COLUMNS),
        "curve": thin(lines),
    }


def _short(value):
    return round(value, 4) if isinstance(value, float) else value
