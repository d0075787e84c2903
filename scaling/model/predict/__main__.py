"""Predict speed, waiting, bytes and node hours on N ranks from one run: ``python -m scaling.model.predict``."""

import json
import os
import statistics
from pathlib import Path

from pg_mpi.config.errors import UsageError
from pg_mpi.config.parsers import checked, integer, real
from scaling import cli, sweep
from scaling.model import exchange
from scaling.model.predict import findings
from scaling.model.predict.measured import read_costs
from scaling.model.predict.model import predict
from scaling.pictures import speed
from scaling.tables import medians

KIND = ("predict", 4)
MEMORY = 400.0  # GB/s of a node with two sockets of eight channels of DDR4-3200
DECADES = (*(2**k for k in range(11)), 4096, 16384, 65536, 262144, 1_000_000)


def parser():
    """Create the argument parser."""
    p = cli.parser(
        "scaling.model.predict",
        "Predict steps/s, waiting and node hours on N ranks from the metrics of one real run (game "
        "lengths, cost of a step, a sample and an exchanged byte) and a model of the network.",
        f"Networks: {', '.join(exchange.NAMED)}, or doctor=FILE with the last line of pg_mpi.doctor --json: on one "
        "rank of each of several hosts, or on all ranks of one, which tells its memory too. "
        "--sweep compares with its measured speeds.",
    )
    source = p.add_mutually_exclusive_group(required=True)
    source.add_argument("--run", metavar="RUN", help="folder of a run of pg_mpi.train, of half a minute or more")
    source.add_argument("--sweep", metavar="FOLDER", help="a sweep with --keep: predict from each run on --base ranks")
    cli.add_option(p, "--base", "N", integer(), "ranks of the sweep's runs to predict from", 1)
    cli.add_option(p, "--ranks", "N,N", cli.counts, "numbers of ranks (default: 1 to a million)")
    cli.add_option(p, "--network", "NAME", None, "network between nodes", "infiniband-hdr")
    cli.add_option(p, "--ranks-per-node", "P", integer(), "ranks that share a node and its link", 128)
    cli.add_option(
        p,
        "--memory",
        "G",
        cli.positive,
        f"GB/s of a node's memory (default: the doctor's, if on all ranks of a node, or {MEMORY:g})",
    )
    cli.add_option(p, "--cores", "C", integer(), "cores that all ranks share (default: one per rank)")
    cli.add_option(p, "--warmup", "S", real(0), "seconds excluded at the start", 5)
    return cli.add_shared(p, "also write predict.csv, predict.json and predict.png there")


def main(argv):
    """Predict and report. Returns the exit code."""
    args = parser().parse(argv)
    runs, (networks, memory) = runs_of(args), networks_of(args.network, args.ranks_per_node)
    memory = args.memory or memory or MEMORY
    measured = _measured(os.path.join(args.sweep, "sweep.csv")) if args.sweep else {}
    costs = [read_costs(run, args.warmup) for run in runs]
    facts = cli.claim(args.out, "predict.json", "scaling.model.predict", argv)
    how = (networks, args.ranks_per_node, args.cores, 1e9 * memory)
    rows = [medians([predict(each, ranks, *how) for each in costs]) for ranks in args.ranks or DECADES]
    for row in rows:
        row["efficiency"] = row["sps"] / row["ranks"] / (rows[0]["sps"] / rows[0]["ranks"])
        row["extrapolated"] = row["ranks"] > max(costs[0].ranks, *measured, 0)
        if row["ranks"] in measured:
            row["measured"] = measured[row["ranks"]]
            row["error"] = row["sps"] / row["measured"] - 1
    result = {"rows": rows, **findings.verdict(rows), "costs": vars(costs[0]) | {"lengths": costs[0].lengths.tolist()}}
    result |= {"network": args.network, "memory_gb_s": memory}
    csv = (*KIND, [{"measured": "", "error": "", **row} for row in rows], facts)
    figure = (speed.draw_predict, result)
    cli.write_result(args, "predict", findings.table(result), result, saved=result | facts, table=csv, draw=figure)
    return 0


def runs_of(args):
    """Folders of the runs to predict from. Raises ``UsageError``."""
    if args.sweep is None:
        return [args.run]
    if any(part.get("mode") == "strong" for part in cli.read_parts(args.sweep, {})):
        raise UsageError(f"{args.sweep} has --mode strong, which the model does not predict: give a weak sweep")
    runs = sorted(map(str, Path(args.sweep).glob(f"run-{args.base:06d}-*")))
    if not runs:
        raise UsageError(
            f"{args.sweep} contains no run on {args.base} ranks: sweep with --keep and --ranks {args.base}"
        )
    return runs


def networks_of(words, node):
    """The ``Network`` in a node of ``node`` ranks and the one between nodes, and the GB/s of a node's memory or None.

    By name, or from a doctor's report. One of ranks on one host is used for both networks, and fewer ranks than
    ``node`` do not tell what all of them get from the memory. Raises ``UsageError``.
    """
    if not words.startswith("doctor="):
        return (exchange.NAMED["memory"], exchange.NAMED[checked(exchange.named, words, "--network")]), None
    path = words.partition("=")[2]
    try:
        report = json.loads(Path(path).read_text(encoding="utf-8").strip().splitlines()[-1])
        seconds = {int(size): float(spent) for size, spent in report["allreduce_s"].items()}
        found = exchange.fitted(len(report["ranks"]), seconds)
        hosts = len({rank["host"] for rank in report["ranks"]})
        memory = float(report["memory_gb_s"]["together"]) * len(report["ranks"]) / hosts
        per_host = len(report["ranks"]) / hosts
    except (OSError, ValueError, KeyError, IndexError, AttributeError, TypeError):
        raise UsageError(
            f"{path} is not a report of the doctor on several ranks: give --network doctor=doctor.json, written by "
            "mpirun ... python -m pg_mpi.doctor --json > doctor.json on one rank of each host, or on all ranks of one"
        ) from None
    if hosts > 1 and per_host > 1:
        raise UsageError(f"{path} mixes a network with its hosts' memory: start the doctor with one rank on each host")
    return (found if hosts == 1 else exchange.NAMED["memory"], found), memory if per_host >= node else None


def _measured(path):
    """Median steps/s of a sweep: {ranks: steps/s}."""
    ranks, sps = sweep.read_speeds(path)
    return {n: statistics.median(speed for each, speed in zip(ranks, sps) if each == n) for n in set(ranks)}


if __name__ == "__main__":
    cli.run(main)
