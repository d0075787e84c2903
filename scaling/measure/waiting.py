"""Measure waiting with whole games and with fixed steps: ``python -m scaling.measure.waiting``.

With ``--sync episode`` every rank plays a whole game and then waits for the longest one. With ``--sync steps`` every
rank plays the same number of steps with K envs, and games continue across updates. Both are real runs of
``pg_mpi.train`` in temporary folders; all numbers come from their ``metrics.jsonl`` and last checkpoint.
"""

import itertools
import json
import os
import statistics
import sys

from pg_mpi.config.command_line import parse_train
from pg_mpi.config.errors import UsageError
from pg_mpi.config.parsers import Parser, checked, integer, real
from pg_mpi.files import checkpoint_file
from pg_mpi.files.csv_table import write_csv
from pg_mpi.files.figure_file import picture
from pg_mpi.files.run_folder import write_json
from pg_mpi.mpi.launch import mpirun
from scaling import cli, sweep
from scaling.measure import timed_run
from scaling.model import exchange
from scaling.model.predict.measured import read_costs
from scaling.model.predict.model import predict
from scaling.pictures import timeline

KIND = ("waiting", 1)
MODES = ("episode", "steps")
MODELLED = tuple(2**k for k in range(17))
#: Training settings that cannot be given here.
REFUSED = {"run_dir", "max_walltime", "resume", "sync", "envs_per_rank", "track", "expect_ranks"}


def parser():
    """Create the argument parser."""
    p = Parser(
        prog="python -m scaling.measure.waiting",
        description="Train with whole games (--sync episode) and with T steps of K envs (--sync steps) on each number "
        "of ranks, and report speed and waiting. The command starts its own ranks: run it without mpirun.",
        epilog="All other flags are those of pg_mpi.train and apply to all runs. More ranks than hardware threads "
        "share them, and the table marks them: their waits include waits for a core. Takes 2 x SECONDS for each "
        "number of ranks, start-up included.",
        allow_abbrev=False,
    )
    p.add_argument("--ranks", metavar="N,N", default="1,2,4,8", help="numbers of ranks (default: 1,2,4,8)")
    p.add_argument("--seconds", metavar="S", default="30", help="length of each run, start-up included (default: 30)")
    p.add_argument("--envs", metavar="K", default="8", help="envs per rank of the runs with --sync steps (default: 8)")
    p.add_argument("--preset", metavar="P", default="default", help="preset of the training (default: default)")
    p.add_argument("--out", metavar="FOLDER", help="also write waiting.json, .csv and .png there (extra: plot)")
    p.add_argument("--json", action="store_true", help="also print the result as a last line of JSON")
    return p


def prepare(argv):
    """Parse and check a command line: (args, training flags of every run). Raises ``UsageError``."""
    args, rest = parser().parse_known_args(argv)
    args.ranks = checked(sweep.counts_of, args.ranks, "--ranks")
    args.seconds = checked(real(0, open_low=True), args.seconds, "--seconds")
    args.envs = checked(integer(), args.envs, "--envs")
    words = ["--preset", args.preset, *rest]
    cli.check_flags(rest, parser(), REFUSED)
    for ranks in args.ranks:
        for mode in MODES:
            config, given = parse_train([*words, *_mode_words(mode, args.envs)])
            config.check(ranks, given)
    return args, words


def _mode_words(mode, envs):
    return ["--sync", mode, "--envs-per-rank", str(envs if mode == "steps" else 1)]


def main(argv):
    """Run, measure and report. Returns the exit code: 1 if a measurement failed."""
    cli.refuse_mpirun()
    args, words = prepare(argv)
    if args.out:
        cli.claim(args.out, "waiting.json", "scaling.measure.waiting", argv)
    runs, modelled, failed = [], {}, []
    for ranks in args.ranks:
        for mode in MODES:
            print(f"{mode} on {ranks} ranks, {args.seconds:g} s", file=sys.stderr, flush=True)
            try:
                with timed_run.trained(ranks, [*words, *_mode_words(mode, args.envs)], args.seconds) as run:
                    runs.append({"mode": mode, **measure(run, ranks), "oversubscribed": _crowded(ranks)})
                    if ranks == args.ranks[0]:
                        modelled[mode] = model(run)
            except (RuntimeError, UsageError) as error:
                failed.append((mode, ranks))
                print(f"pg_mpi: error: {mode} on {ranks} ranks: {error}", file=sys.stderr, flush=True)
    if not runs:
        return 1
    facts = cli.facts("scaling.measure.waiting", argv)
    result = {
        "runs": runs,
        "modelled": modelled,
        "hybrid": [compare(a, b) for a, b in itertools.pairwise(runs) if a["ranks"] == b["ranks"]],
        "preset": args.preset,
        "seconds": args.seconds,
        "envs": args.envs,
        **facts,
    }
    if args.out:
        write_json(os.path.join(args.out, "waiting.json"), result)
        write_csv(os.path.join(args.out, "waiting.csv"), *KIND, flat(result), facts)
        picture(timeline.draw_waiting, os.path.join(args.out, "waiting.png"), result)
    print(table(result), flush=True)
    if args.json:
        print(json.dumps(result), flush=True)
    return int(bool(failed))


def _crowded(ranks):
    return ranks > mpirun.usable_threads()


def model(run):
    """Model the share of waiting from the order statistics of a run's games: a dict by ranks.

    Empty after too few updates. Each rank has a core of its own and a constant share of a minibatch. With a fixed
    minibatch, the growing number of exchanges would hide the waiting.
    """
    try:
        costs = read_costs(run)
    except UsageError:
        return {}
    network, each = (exchange.NAMED["memory"],) * 2, costs.settings["minibatch_size"] // costs.ranks
    return {ranks: predict(costs, ranks, network, minibatch=each * ranks)["wait_fraction"] for ranks in MODELLED}


def measure(run, ranks):
    """Summarise a run's metrics: a dict. Shares are of the wall time of all its updates."""
    lines = timed_run.read_metrics(run)
    wall = sum(1 / line["updates_per_s"] for line in lines)
    _, _, facts = checkpoint_file.load_newest(str(run), lambda line: None)
    settings = json.loads((run / "config.json").read_text(encoding="utf-8"))["settings"]
    share = settings["games_per_update"]
    whole = settings["sync"] == "episode" and lines[-1]["games"] == lines[-1]["update"] * ranks * share  # no round cut
    return {
        "ranks": ranks,
        "sps_total": lines[-1]["sps_total"],
        "sps": lines[-1]["env_steps"] / wall,
        "updates": lines[-1]["update"],
        "env_steps": lines[-1]["env_steps"],
        "length_mean": lines[-1]["length_mean"],
        "wait_share": sum(line["phase_s"]["wait"] for line in lines) / wall,
        "wait_share_max": sum(line["phase_max_s"]["wait"] for line in lines) / wall,
        "longest_to_mean": longest_to_mean(facts["counters"]["recent"], ranks, share) if whole else None,
    }


def longest_to_mean(games, ranks, share=1):
    """Mean over rounds of the longest rank's steps divided by the mean rank's; None without a whole round.

    ``games``: (score, steps) of a run's last games. The ``share`` games of a rank in a round are consecutive, the
    ranks are in order, and the last round is whole.
    """
    games = games[len(games) % (ranks * share) :]
    ranked = [sum(steps for _, steps in games[k : k + share]) for k in range(0, len(games), share)]
    rounds = [ranked[k : k + ranks] for k in range(0, len(ranked), ranks)]
    return statistics.fmean(max(each) / statistics.fmean(each) for each in rounds) if rounds else None


def compare(episode, steps):
    """Compare fixed steps with whole games on one number of ranks: speed ratio, difference of wait shares."""
    return {
        "ranks": episode["ranks"],
        "speedup": steps["sps"] / episode["sps"],
        "wait_saved": episode["wait_share"] - steps["wait_share"],
    }


def flat(result):
    """One row per number of ranks and mode, measured ones first, then modelled ones."""
    found = [(run["mode"], run["ranks"], run["sps"], run["wait_share"]) for run in result["runs"]]
    found += [(mode, n, "", wait) for mode, waits in result["modelled"].items() for n, wait in waits.items()]
    return [dict(zip(("sync", "ranks", "sps", "wait_share"), row)) for row in found]


def table(result):
    """Format the result as text."""
    lines = [
        f"{result['preset']}, {result['seconds']:g} s a run; steps: {result['envs']} envs per rank; "
        f"{result['cores']} usable hardware threads ({result['cpu']})",
        "",
        f"{'ranks':>5}  {'sync':<8}{'sps_total':>10}{'steps/s':>9}{'wait':>8}{'longest':>9}{'long/mean':>11}",
    ]
    for run in result["runs"]:
        ratio = "-" if run["longest_to_mean"] is None else f"{run['longest_to_mean']:.2f}"
        lines.append(
            f"{run['ranks']:>5}  {run['mode']:<8}{run['sps_total']:>10,.0f}{run['sps']:>9,.0f}"
            f"{run['wait_share']:>8.1%}{run['wait_share_max']:>9.1%}{ratio:>11}"
            + ("  shares cores" if run["oversubscribed"] else "")
        )
    lines += ["", "wait: share of the wall time that ranks wait for others, mean of ranks; longest: the longest wait"]
    lines += [
        f"on {pair['ranks']} ranks --sync steps makes {pair['speedup']:.2f} times the steps/s "
        f"and waits {100 * pair['wait_saved']:.1f} percentage points less"
        for pair in result["hybrid"]
    ]
    for mode, waits in ((mode, waits) for mode, waits in result["modelled"].items() if waits):
        shown = ", ".join(f"{waits[ranks]:.1%} on {ranks:,}" for ranks in (2, 8, 64, 1024, 65536))
        lines.append(f"{mode}, modelled with a core for each rank: waiting {shown}")
    return "\n".join(lines)


if __name__ == "__main__":
    cli.run(main)
