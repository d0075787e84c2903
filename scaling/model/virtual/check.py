"""Compare virtual ranks with real ones: equality of the weights, and error of the virtual clock.

    python -m scaling.model.virtual.check --ranks 1,2,4 --repeats 3 --out runs/check

Real and virtual runs with the same flags alternate. Times are measured from the end of the first update to the end of
the last, and are compared as medians over the repeats.
"""

import json
import os
import statistics
import sys
from pathlib import Path

from pg_mpi.config.command_line import parse_train
from pg_mpi.config.parsers import Parser, checked, integer
from pg_mpi.files import checkpoint_file
from pg_mpi.files.csv_table import write_csv
from pg_mpi.mpi.launch.mpirun import usable_threads
from scaling import cli, sweep
from scaling.measure import timed_run
from scaling.model import exchange
from scaling.model.virtual.__main__ import REFUSED as BY_VIRTUAL

KIND = ("virtual-check", 1)
REFUSED = BY_VIRTUAL | {"total_timesteps"}
PATIENCE = 900.0  # seconds


def parser():
    """Create the argument parser."""
    p = Parser(
        prog="python -m scaling.model.virtual.check",
        description="Train on real and on virtual ranks in turns. Reports whether the weights are equal bit for bit, "
        "and the error of the virtual clock. Ranks beyond this machine's cores share them, virtual ones too.",
        epilog="All other flags are those of pg_mpi.train. Run nothing else on the machine meanwhile.",
        allow_abbrev=False,
    )
    p.add_argument("--ranks", metavar="N,N", default="1,2,4", help="numbers of ranks (default: 1,2,4)")
    p.add_argument("--repeats", metavar="R", default="3", help="runs of each kind (default: 3)")
    p.add_argument("--steps-per-rank", metavar="T", default="15000", help="length of each run (default: 15000)")
    p.add_argument("--network", metavar="NAME", default="memory", help="network of the virtual ranks (default: memory)")
    p.add_argument("--preset", metavar="P", default="default", help="preset of the training (default: default)")
    p.add_argument("--out", metavar="FOLDER", default="runs/check", help="results folder (default: runs/check)")
    p.add_argument("--json", action="store_true", help="also print the result as a last line of JSON")
    return p


def main(argv):
    """Run, compare and report. Returns exit code 1 if weights differ."""
    cli.refuse_mpirun()
    args, rest = parser().parse_known_args(argv)
    cli.check_flags(rest, parser(), REFUSED)
    counts = checked(sweep.counts_of, args.ranks, "--ranks")
    repeats = checked(integer(), args.repeats, "--repeats")
    steps = checked(integer(), args.steps_per_rank, "--steps-per-rank")
    exchange.named(args.network)
    words = ["--preset", args.preset, *rest]
    config, given = parse_train(words)
    for ranks in counts:
        config.check(ranks, given)
    cli.claim(args.out, "check.csv", "scaling.model.virtual.check", argv)
    rows = []
    for repeat in range(repeats):
        for ranks in counts:
            print(f"{ranks} ranks, {repeat + 1} of {repeats}", file=sys.stderr, flush=True)
            flags = [*words, "--total-timesteps", str(steps * ranks)]
            rows.append({"repeat": repeat, "ranks": ranks, **compare(ranks, flags, args.network, steps * ranks)})
    facts = cli.facts("scaling.model.virtual.check", argv)
    write_csv(os.path.join(args.out, "check.csv"), *KIND, rows, facts)
    said = [summary([row for row in rows if row["ranks"] == ranks]) for ranks in counts]
    print(table(said), flush=True)
    if args.json:
        print(json.dumps({"rows": said}), flush=True)
    return int(not all(each["same_weights"] for each in said))


def compare(ranks, flags, network, steps):
    """Run ``steps`` steps on real and on virtual ranks: a row."""
    with timed_run.trained(ranks, flags, PATIENCE) as folder:
        timed_run.check_whole(timed_run.read_metrics(folder), steps)
        real = _read(folder)
        beside = Path(folder).with_name("virtual")
        own = [str(ranks), network, str(ranks), str(min(ranks, usable_threads()))]
        line = [sys.executable, "-m", "scaling.model.virtual.train", *own, *flags, "--run-dir", str(beside)]
        code, _, errors = timed_run.run(line, limit=PATIENCE)
        if code:
            raise RuntimeError(f"virtual ranks: exit code {code}\n{errors.strip()}")
        virtual = _read(beside)
    return {
        "real_s": real["seconds"],
        "virtual_s": virtual["seconds"],
        "real_sps": real["sps"],
        "virtual_sps": virtual["sps"],
        "real_wait": real["wait"],
        "virtual_wait": virtual["wait"],
        "real_allreduce": real["allreduce"],
        "virtual_allreduce": virtual["allreduce"],
        "same_weights": real["theta"] == virtual["theta"],
    }


def _read(folder):
    """A finished run: its weights as bytes, and its seconds, speed and phase shares after the first update."""
    _, arrays, _ = checkpoint_file.load_newest(str(folder), lambda line: None)
    lines = timed_run.read_metrics(folder)
    found = timed_run.measured(lines, 0.0)
    return {
        "theta": arrays["theta"].tobytes(),
        "seconds": round(lines[-1]["wall_s"] - lines[0]["wall_s"], 4),
        "sps": round(found["sps"], 1),
        **{name: round(found["phase_share"][name], 4) for name in ("wait", "allreduce")},
    }


def summary(rows):
    """Medians over the repeats of one number of ranks. ``error`` is that of the virtual seconds."""
    middle = {
        name: statistics.median(row[name] for row in rows) for name in rows[0] if name not in ("repeat", "same_weights")
    }
    error = middle["virtual_s"] / middle["real_s"] - 1
    return {**middle, "error": error, "same_weights": all(row["same_weights"] for row in rows)}


def table(said):
    """Format the rows as text."""
    lines = [f"{'ranks':>5}{'real: s':>10}{'virtual: s':>12}{'error':>8}{'waiting':>16}{'allreduce':>16}  weights"]
    for row in said:
        shares = (f"{row[f'real_{name}']:>8.1%}{row[f'virtual_{name}']:>8.1%}" for name in ("wait", "allreduce"))
        seconds = f"{row['real_s']:>10.1f}{row['virtual_s']:>12.1f}{row['error']:>+8.1%}"
        same = "the same" if row["same_weights"] else "DIFFER"
        lines.append(f"{row['ranks']:>5}{seconds}{''.join(shares)}  {same}")
    return "\n".join([*lines, "", "waiting, allreduce: real, then virtual, as shares of the time"])


if __name__ == "__main__":
    cli.run(main)
