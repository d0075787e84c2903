"""Measure waiting with whole games and with fixed steps: ``python -m scaling.measure.waiting``.

With ``--sync episode`` every rank plays a whole game and then waits for the longest one. With ``--sync steps`` every
rank plays the same number of steps with K envs, and games continue across updates. Both are real runs of
``pg_mpi.train`` in temporary folders; all numbers come from their ``metrics.jsonl`` and last checkpoint.
"""

import itertools
import json
import statistics
import sys

from pg_mpi.config.errors import UsageError
from pg_mpi.config.parsers import integer
from pg_mpi.files import checkpoint_folder
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
    p = cli.parser(
        "scaling.measure.waiting",
        "Train with whole games (--sync episode) and with T steps of K envs (--sync steps) on each number "
        "of ranks, and report speed and waiting. The command starts its own ranks: run it without mpirun.",
        "All other flags are those of pg_mpi.train and apply to all runs. More ranks than hardware threads "
        "share them, and the table marks them: their waits include waits for a core. Takes 2 x SECONDS for each "
        "number of ranks, start-up included.",
    )
    cli.add_option(p, "--ranks", "N,N", sweep.counts_of, "numbers of ranks", "1,2,4,8")
    cli.add_option(p, "--seconds", "S", cli.positive, "length of each run, start-up included", 30)
    cli.add_option(p, "--envs", "K", integer(), "envs per rank of the runs with --sync steps", 8)
    return cli.add_shared(p, "also write waiting.json, .csv and .png there (extra: plot)", preset=True)


def main(argv):
    """Run, measure and report. Returns the exit code: 1 if a measurement failed."""
    cli.refuse_mpirun()
    args, words = cli.parse_training(parser(), argv, REFUSED)
    envs = {"episode": 1, "steps": args.envs}
    ways = {mode: [*words, "--sync", mode, "--envs-per-rank", str(envs[mode])] for mode in MODES}
    for flags in ways.values():
        cli.check_training(flags, *args.ranks)
    cli.claim(args.out, "waiting.json", "scaling.measure.waiting", argv)
    runs, modelled, failed = [], {}, []
    for ranks, mode in itertools.product(args.ranks, MODES):
        label = f"{mode} on {ranks} ranks"
        print(f"{label}, {args.seconds:g} s", file=sys.stderr, flush=True)
        flags, seconds = ways[mode], args.seconds
        with timed_run.reported(failed, (mode, ranks), label), timed_run.trained(ranks, flags, seconds) as run:
            runs.append({"mode": mode, **measure(run, ranks), "oversubscribed": ranks > mpirun.usable_threads()})
            if ranks == args.ranks[0]:
                modelled[mode] = model(run)
    if not runs:
        return 1
    facts = cli.facts("scaling.measure.waiting", argv)
    result = {
        "runs": runs,
        "modelled": modelled,
        "hybrid": [compare(a, b) for a, b in itertools.pairwise(runs) if a["ranks"] == b["ranks"]],
        **{name: getattr(args, name) for name in ("preset", "seconds", "envs")},
        **facts,
    }
    csv = (*KIND, flat(result), facts)
    figure = (timeline.draw_waiting, result)
    cli.write_result(args, "waiting", table(result), result, saved=result, table=csv, draw=figure)
    return int(bool(failed))


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
    _, _, facts = checkpoint_folder.load_newest(str(run), lambda line: None)
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
