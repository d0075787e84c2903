"""Predict speed, waiting, bytes and node hours on N ranks from one run: ``python -m scaling.model.predict``."""

import json
import os
from pathlib import Path

from pg_mpi.config.errors import UsageError
from pg_mpi.config.parsers import Parser, checked, integer, real
from pg_mpi.files.csv_table import write_csv
from pg_mpi.files.figure_file import picture
from pg_mpi.files.run_folder import write_json
from scaling import cli, sweep
from scaling.csv_io import read_csv
from scaling.measure import efficiency
from scaling.model import exchange
from scaling.model.predict import report
from scaling.model.predict.measured import read_costs
from scaling.model.predict.model import predict, waiting_ci95
from scaling.pictures import speed

KIND = ("predict", 2)
DECADES = "1,2,4,8,16,32,64,128,256,512,1024,4096,16384,65536,262144,1000000"


def parser():
    """Create the argument parser."""
    p = Parser(
        prog="python -m scaling.model.predict",
        description="Predict steps/s, waiting and node hours on N ranks from the metrics of one real run (game "
        "lengths, cost of a step, a sample and an exchanged byte) and a model of the network.",
        epilog=f"Networks: {', '.join(exchange.NAMED)}, or microseconds:GB/s such as 1.5:12, or doctor=FILE with "
        "the last line of pg_mpi.doctor --json on several ranks. --against SWEEP adds the measured speeds of a "
        "sweep.csv. --minibatch-size is the size for training on N ranks; with a fixed size, more ranks make more "
        "exchanges per update.",
        allow_abbrev=False,
    )
    p.add_argument("--run", metavar="RUN", help="folder of a run of pg_mpi.train")
    p.add_argument("--sweep", metavar="FOLDER", help="instead: a sweep with --keep, each run with --base ranks")
    p.add_argument("--base", metavar="N", default="1", help="ranks of the sweep's runs to predict from (default: 1)")
    p.add_argument("--ranks", metavar="N,N", default=DECADES, help="numbers of ranks (default: 1 to a million)")
    p.add_argument("--network", metavar="NAME", default="memory", help="network between nodes (default: memory)")
    p.add_argument(
        "--ranks-per-node", metavar="P", default="128", help="ranks that share a node and its link (default: 128)"
    )
    p.add_argument("--cores", metavar="C", help="cores that all ranks share (default: one per rank)")
    p.add_argument("--minibatch-size", metavar="M", help="samples per exchange; Mx: M per rank (default: the run's)")
    p.add_argument("--warmup", metavar="S", default="5", help="seconds excluded at the start (default: 5)")
    p.add_argument("--against", metavar="SWEEP", help="sweep.csv with measured speeds to compare with")
    p.add_argument("--out", metavar="FOLDER", help="also write predict.csv, predict.json and predict.png there")
    p.add_argument("--json", action="store_true", help="also print the result as a last line of JSON")
    return p


def main(argv):
    """Predict and report. Returns the exit code."""
    args = parser().parse(argv)
    runs = runs_of(args)
    counts = checked(sweep.counts_of, args.ranks, "--ranks")
    node = checked(integer(), args.ranks_per_node, "--ranks-per-node")
    cores = checked(integer(), args.cores, "--cores") if args.cores else None
    networks = networks_of(args.network)
    batch = checked(_minibatch, args.minibatch_size, "--minibatch-size") if args.minibatch_size else lambda ranks: None
    warmup = checked(real(0), args.warmup, "--warmup")
    measured = _measured(args.against or os.path.join(args.sweep, "sweep.csv")) if args.against or args.sweep else {}
    costs = [read_costs(run, warmup) for run in runs]
    if args.out:
        cli.claim(args.out, "predict.json", "scaling.model.predict", argv)
    rows = []
    for ranks in counts:
        how = (ranks, networks, node, cores, batch(ranks))
        row = median([predict(each, *how) for each in costs])
        row["wait_low"], row["wait_high"] = waiting_ci95(costs[0], *how)
        rows.append(row)
    for row in rows:
        row["efficiency"] = row["sps"] / row["ranks"] / (rows[0]["sps"] / rows[0]["ranks"])
        if row["ranks"] in measured:
            row["measured"] = measured[row["ranks"]]
            row["error"] = row["sps"] / row["measured"] - 1
    result = {"rows": rows, **report.verdict(rows), "costs": report.told(costs[0]), "network": args.network}
    print(report.table(result), flush=True)
    if args.out:
        facts = cli.facts("scaling.model.predict", argv)
        write_json(os.path.join(args.out, "predict.json"), result | facts)
        columns = [{**{"measured": "", "error": ""}, **row} for row in rows]
        write_csv(os.path.join(args.out, "predict.csv"), *KIND, columns, facts)
        picture(speed.draw_predict, os.path.join(args.out, "predict.png"), result)
    if args.json:
        print(json.dumps(result), flush=True)
    return 0


def runs_of(args):
    """Folders of the runs to predict from. Raises ``UsageError``."""
    if bool(args.run) == bool(args.sweep):
        raise UsageError(
            "give --run RUN, the folder of a run of pg_mpi.train of half a minute or more, or --sweep FOLDER"
        )
    if args.run:
        return [args.run]
    base = checked(integer(), args.base, "--base")
    runs = sorted(map(str, Path(args.sweep).glob(f"run-{base:06d}-*")))
    if not runs:
        raise UsageError(f"{args.sweep} contains no run on {base} ranks: sweep with --keep and --ranks {base}")
    return runs


def median(rows):
    """The row with the median speed."""
    return sorted(rows, key=lambda row: row["sps"])[len(rows) // 2]


def networks_of(words):
    """The ``Network`` in a node and the one between nodes: by name, by figures, or from a doctor's report.

    A report of ranks on one host describes its memory, and is then used for both networks. Raises ``UsageError``.
    """
    if not words.startswith("doctor="):
        return exchange.NAMED["memory"], exchange.named(words)
    path = words.partition("=")[2]
    try:
        with open(path, encoding="utf-8") as file:
            report = json.loads(file.read().strip().splitlines()[-1])
        seconds = {int(size): float(spent) for size, spent in report["allreduce_s"].items()}
        found = exchange.fitted(len(report["ranks"]), seconds)
        return found if len({rank["host"] for rank in report["ranks"]}) == 1 else exchange.NAMED["memory"], found
    except (OSError, ValueError, KeyError, IndexError, AttributeError, TypeError):
        raise UsageError(
            f"{path} is not a report of the doctor on several ranks: run "
            f"mpirun -n 2 python -m pg_mpi.doctor --json > {path}"
        ) from None


def _minibatch(text):
    """Parse ``2048``, or ``1024x`` for a size per rank: a function of the number of ranks."""
    each = text.endswith("x")
    size = integer()(text.removesuffix("x"))
    return lambda ranks: size * ranks if each else size


def _measured(path):
    """Median steps/s of a sweep: {ranks: steps/s}."""
    rows, _ = read_csv(path, *sweep.KIND, positive=("ranks", "sps"))
    return {ranks: efficiency.middle(rows, ranks) for ranks in {row["ranks"] for row in rows}}


if __name__ == "__main__":
    cli.run(main)
