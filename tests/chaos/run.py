"""Inject every fault that a training run must survive, several times each: ``make chaos``.

    python tests/chaos/run.py [--only WORD] [--full] [--tries N] [--seed S] [--out FILE]
    python tests/chaos/run.py --table FILE

Prints a table with one row per fault: tries, failures of each kind, and the longest recovery. The last line is the same
as JSON. The exit code is 1 if anything was lost, hung or wrong.

    lost    an acknowledged update is missing, or a checkpoint cannot be read
    hung    a job did not end in time, or left running processes
    wrong   a different checkpoint at the end, no clear message, or a wrong exit code
"""

import argparse
import json
import os
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[level]) for level in range(3)]

import files  # noqa: E402
import fuzz  # noqa: E402
import hangs  # noqa: E402
import hosts_  # noqa: E402
import io_errors  # noqa: E402
import kills  # noqa: E402
import lost_ranks  # noqa: E402
import numbers_  # noqa: E402
import power_loss  # noqa: E402
import run_environment  # noqa: E402
import signals_  # noqa: E402
from outcome import FAULTS, Outcome  # noqa: E402

from pg_mpi.files.atomic_file import write_json  # noqa: E402
from scaling import cli  # noqa: E402

#: Importing them fills FAULTS.
MODULES = (kills, files, fuzz, io_errors, power_loss, numbers_, signals_, run_environment, hangs, lost_ranks, hosts_)
HEAD = f"{'fault':<62}{'tries':>7}{'lost':>6}{'hung':>6}{'wrong':>7}{'worst, s':>10}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", metavar="WORD", default="", help="only faults whose name contains this word")
    parser.add_argument(
        "--full", action="store_true", help="the full number of tries, which takes hours (or CHAOS=full)"
    )
    parser.add_argument("--tries", type=int, metavar="N", help="this many tries of each fault")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="random seed (default: the time)")
    parser.add_argument(
        "--out", metavar="FILE", help="write the result after each fault, and skip the faults that it contains"
    )
    parser.add_argument("--table", metavar="FILE", nargs="+", help="only print such files as a Markdown table")
    args = parser.parse_args()
    for stop in (signal.SIGINT, signal.SIGTERM):  # a shell makes its background jobs ignore SIGINT
        signal.signal(stop, signal.default_int_handler)
    if args.table:
        return table([json.loads(Path(file).read_text()) for file in args.table])
    full = args.full or os.environ.get("CHAOS") == "full"
    faults = [fault for fault in FAULTS if args.only in fault.name]
    if not faults:
        parser.error(f"no fault has {args.only!r} in its name: " + "; ".join(fault.name for fault in FAULTS))
    result = existing_result(args, full)
    rows, done = result["rows"], [row["fault"] for row in result["rows"]]
    faults = [fault for fault in faults if fault.name not in done]
    print(f"{len(faults)} faults, seed {args.seed}", file=sys.stderr, flush=True)
    print(HEAD, flush=True)
    while faults:
        fault, *faults = faults
        begun = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
            outcome = Outcome(fault.name)
            try:
                fault.run(outcome, Path(folder), args.tries or (fault.full if full else fault.tries), args.seed)
            except KeyboardInterrupt:  # what was tried counts
                faults = []
                if not outcome.tries:
                    break
            except Exception:  # any: the other faults are tried
                outcome.tries, outcome.failures["wrong"] = outcome.tries + 1, outcome.failures["wrong"] + 1
                traceback.print_exc()
        if not outcome.tries:
            print("    not tried: it needs root, FUSE or gcc", file=sys.stderr, flush=True)
        rows.append(outcome.row())
        print(outcome.line(), flush=True)
        result["seconds"] = round(result["seconds"] + time.monotonic() - begun)
        if args.out:
            write_json(args.out, result)
    print(json.dumps(rows))
    untried = "CI" in os.environ and not all(row["tries"] for row in rows)
    return int(untried or any(row[name] for row in rows for name in ("lost", "hung", "wrong")))


def existing_result(args, full):
    """Return the existing result of ``--out``, or a new one without rows."""
    if args.out and os.path.exists(args.out):
        found = json.loads(Path(args.out).read_text())
        if found["full"] == full:
            return found
        sys.exit(f"{args.out} is of {'full' if found['full'] else 'fewer'} tries: give another --out")
    facts = cli.facts("tests/chaos/run.py", sys.argv[1:])
    return {**facts, "full": full, "seconds": 0, "rows": []}


def table(results):
    """Print results as a Markdown table."""
    print("| fault | tries | lost | hung | wrong | worst, s |\n|---|---|---|---|---|---|")
    for row in (row for result in results for row in result["rows"]):
        print(
            f"| {row['fault']} | {row['tries']:,} | {row['lost']} | {row['hung']} | {row['wrong']} | {row['worst_s']} |"
        )
    for result in results:
        print(f"\n({result['seconds'] / 60:.0f} minutes at {result['commit'][:7]}: {result['command']})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
