"""Write the README's tables from the files in ``results/``.

    python -m scaling.peers.table

Scores are those at the end of the shortest run.
"""

import argparse
import json
import math
from pathlib import Path

from scaling.tables import markdown

HERE = Path(__file__).parent
RESULTS, README = HERE / "results", HERE / "README.md"
TARGETS = (0, 18)  # mean scores of 100 games
MARKS = "<!-- results: written by scaling.peers.table -->", "<!-- end of results -->"


def read():
    """Read [(settings, lines)] of all peers, fastest first."""
    runs = []
    for path in sorted(RESULTS.glob("*.json")):
        lines = path.with_suffix(".jsonl")
        text = lines.read_text(encoding="utf-8") if lines.exists() else ""
        runs.append((json.loads(path.read_text(encoding="utf-8")), [json.loads(line) for line in text.splitlines()]))
    return sorted(runs, key=lambda run: -speed(run[1]))


def speed(lines):
    """Agent steps per second from the first line with steps to the last, start-up excluded."""
    first, last = (next((line for line in order if line["env_steps"]), None) for order in (lines, lines[::-1]))
    if not first:
        return 0.0
    if first is last:  # a single report: start-up is included
        return last["env_steps"] / last["wall_s"]
    return (last["env_steps"] - first["env_steps"]) / (last["wall_s"] - first["wall_s"])


def score(lines, wall):
    """Table cell: the last mean score known ``wall`` seconds after the start."""
    known = [line for line in lines if line["wall_s"] <= wall and line["return_mean"] is not None]
    return _score(known[-1]) if known else "no game yet"


def _score(line):
    games = "" if line["games"] >= 100 else f" ({line['games']} games)"
    return f"{line['return_mean']:+.1f}{games}"


def reached(lines, target):
    """Seconds until 100 games first average ``target``, or infinity."""
    times = (line["wall_s"] for line in lines if line["games"] >= 100 and line["return_mean"] >= target)
    return next(times, math.inf)


def _seconds(time):
    return f"{time:,.0f} s" if time < math.inf else "not reached"


def scores(runs):
    """Table of speeds and scores."""
    rows, shortest = [], min((about["seconds"] for about, lines in runs if lines), default=0)
    for about, lines in runs:
        if "error" in about:
            rows.append([about["name"], about["error"], *[""] * (3 + len(TARGETS))])
            continue
        scored = [line for line in lines if line["return_mean"] is not None]
        end = f"{_score(scored[-1])} at {scored[-1]['wall_s']:,.0f} s" if scored else "no game ended"
        first = f"{lines[0]['wall_s']:,.0f} s"
        when = [_seconds(reached(lines, target)) for target in TARGETS]
        rows.append([about["name"], f"{speed(lines):,.0f}", first, score(lines, shortest), *when, end])
    when = [f"{target} reached after" for target in TARGETS]
    return markdown([["", "steps/s", "first report", f"score at {shortest:,.0f} s", *when, "end"], *rows])


def settings(runs):
    """List of settings, machines and versions."""
    lines = []
    for about, _ in runs:
        if "versions" in about:
            packages = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
            budget = f"{about['seconds']:g} s, seed {about['seed']}, {about['cores']} cores of {about['cpu']}"
            busy = f", others used {about['busy_before']:.2f} cores before" if "busy_before" in about else ""
            lines.append(f"- **{about['name']}**: {about['settings']}; {budget}{busy}; {packages}")
    return "\n".join(lines)


def write():
    """Write the tables between the marks in the README."""
    runs = read()
    parts = [scores(runs), settings(runs)] if runs else ["Not measured yet."]
    text = README.read_text(encoding="utf-8")
    before, rest = text.split(MARKS[0])
    after = rest.split(MARKS[1])[1]
    README.write_text("\n\n".join([before + MARKS[0], *parts, MARKS[1] + after]), encoding="utf-8")


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    write()
