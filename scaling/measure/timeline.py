"""Merge the traces of a run and report waiting: ``python -m scaling.measure.timeline RUN``."""

import json
import os
from itertools import takewhile
from pathlib import Path

from pg_mpi.config.errors import UsageError
from pg_mpi.files.atomic_file import write_json
from pg_mpi.files.figure_file import check_picture, picture
from pg_mpi.files.trace_file import PLAY
from scaling import cli
from scaling.pictures import timeline

MOST = 32  # ranks that are listed and drawn
SHOWN = 3  # updates of the picture, after the first one, which includes the start-up


def parser():
    """Create the argument parser."""
    p = cli.parser(
        "scaling.measure.timeline",
        "Merge the traces of all ranks of a run's last start with --trace into RUN/trace/merged.json, for "
        "ui.perfetto.dev and chrome://tracing, and report the waiting of each rank.",
        "Times are on rank 0's clock. An incomplete trace is read up to its last complete line.",
    )
    p.add_argument("run", metavar="RUN", help="the run's folder")
    p.add_argument("--picture", metavar="PNG", help="also draw its second to fourth update (extra: plot)")
    p.add_argument("--json", action="store_true", help="also print the result as a last line of JSON")
    return p


def main(argv):
    """Merge and report. Returns the exit code."""
    args = parser().parse(argv)
    if args.picture:
        check_picture(args.picture)
    events = merge(args.run)
    updates = sorted({block["args"]["update"] for block in _blocks(events)})[1 : 1 + SHOWN]
    if args.picture and not updates:
        raise UsageError("the traces hold no update after the first: train longer for a picture")
    place = os.path.join(args.run, "trace", "merged.json")
    result = {"merged": place, **summary(events)}
    write_json(place, {"displayTimeUnit": "ms", "traceEvents": events}, indent=None)
    print(f"{result['ranks']} ranks, {result['updates']} updates, {len(events):,} events: {place}")
    ranks = extremes(result["wait_share"])
    for rank in ranks:
        played = f"played longest in {result['longest'][rank]} of {result['updates']} updates"
        print(f"  rank {rank}: waits {result['wait_share'][rank]:.1%} of the time; {played}")
    if left := result["ranks"] - len(ranks):
        print(f"  {left} more ranks wait longer than {MOST // 2} of these, and shorter than the others")
    if args.picture:
        picture(timeline.draw_trace, args.picture, events, updates, ranks)
    if args.json:
        print(json.dumps(result))
    return 0


def extremes(shares):
    """Ranks to list and to draw: all, or of more than ``MOST`` those that wait least and most."""
    order = sorted(range(len(shares)), key=shares.__getitem__)
    return sorted(order if len(order) <= MOST else order[: MOST // 2] + order[-MOST // 2 :])


def merge(run):
    """Merge the events of all ranks of the last start, sorted by time. Raises ``UsageError`` if there are none."""
    files = {}
    for path in sorted(Path(run, "trace").glob("host-*-start-[0-9]*.json")):
        files.setdefault(int(path.stem.rpartition("-")[2]), []).append(path)
    if not files:
        raise UsageError(f"{run} has no traces: train it with --trace")
    events = [event for path in files[max(files)] for event in read(path)]
    return sorted(events, key=lambda event: event.get("ts", -1e18))


def read(path):
    """Read the events of one host's file up to its last complete line."""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    if not lines or lines[0] != "[":
        raise UsageError(f"{path} is not a trace of pg_mpi: train again with --trace")
    whole = takewhile(lambda line: line.endswith("},"), lines[1:])
    try:
        return [dict(json.loads(line[:-1])) for line in whole]
    except (ValueError, TypeError):
        raise UsageError(f"{path} is damaged: train again with --trace") from None


def _blocks(events):
    """Select the top-level events, without nested ones."""
    return [event for event in events if event["ph"] == "X" and event["tid"] == 0]


def summary(events):
    """Share of waiting, and number of updates with the longest play, as lists over ranks."""
    blocks = _blocks(events)
    if not blocks:
        raise UsageError("the traces hold no update: train longer with --trace")
    ranks = 1 + max(event["pid"] for event in events)
    begun = min(event["ts"] for event in blocks)
    span = max(event["ts"] + event["dur"] for event in blocks) - begun
    waits, played = [0.0] * ranks, {}
    for event in blocks:
        if event["name"] == "wait":
            waits[event["pid"]] += event["dur"]
        if event["name"] == PLAY:
            played.setdefault(event["args"]["update"], {})[event["pid"]] = event["dur"]
    rounds = [each for each in played.values() if len(each) == ranks]
    longest = [max(each, key=each.get) for each in rounds]
    return {
        "ranks": ranks,
        "updates": len(rounds),
        "seconds": span / 1e6,
        "wait_share": [wait / span for wait in waits],
        "longest": [longest.count(rank) for rank in range(ranks)],
    }


if __name__ == "__main__":
    cli.run(main)
