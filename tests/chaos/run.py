"""Every fault that a training run must survive, again and again: ``make chaos``.

    python tests/chaos/run.py [--only WORD] [--full] [--seed S]

Prints a table with a row for each fault: tries, what was lost, hung or went wrong, and the worst time until all was
well again; then the same as one line of JSON. Exit code 1 if anything was lost, hung or wrong.

    lost    an update that a checkpoint had acknowledged is gone, or a checkpoint cannot be read
    hung    a job that did not end in time, or left processes behind
    wrong   other bits in the end, no clear line, or a wrong exit code
"""

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

import files  # noqa: E402
import hangs  # noqa: E402
import hosts_  # noqa: E402
import kills  # noqa: E402
import losses  # noqa: E402
import numbers_  # noqa: E402
import places  # noqa: E402
import signals_  # noqa: E402
from outcome import FAULTS, Tally  # noqa: E402

ROOMS = (kills, files, numbers_, signals_, places, hangs, losses, hosts_)  # importing them fills FAULTS
HEAD = f"{'fault':<62}{'tries':>7}{'lost':>6}{'hung':>6}{'wrong':>7}{'worst, s':>10}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", metavar="WORD", default="", help="faults whose name has this word")
    parser.add_argument("--full", action="store_true", help="the full number of tries: hours (or CHAOS=full)")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of what is random (default: the time)")
    args = parser.parse_args()
    full = args.full or os.environ.get("CHAOS") == "full"
    faults = [fault for fault in FAULTS if args.only in fault.name]
    if not faults:
        parser.error(f"no fault has {args.only!r} in its name: " + "; ".join(fault.name for fault in FAULTS))
    print(f"{len(faults)} faults, seed {args.seed}", file=sys.stderr, flush=True)
    print(HEAD, flush=True)
    rows = []
    for fault in faults:
        with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
            tally = Tally(fault.name)
            fault.play(tally, Path(folder), fault.full if full else fault.tries, args.seed)
        rows.append(tally.row())
        print(tally.line(), flush=True)
        for note in tally.notes[:5]:
            print(f"    {note}", file=sys.stderr, flush=True)
    print(json.dumps(rows))
    return int(any(row[name] for row in rows for name in ("lost", "hung", "wrong")))


if __name__ == "__main__":
    sys.exit(main())
