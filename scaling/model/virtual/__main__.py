"""Train on virtual ranks with a simulated clock: ``python -m scaling.model.virtual``."""

import itertools
import subprocess
import sys
from pathlib import Path

from pg_mpi.config.errors import counted
from pg_mpi.config.parsers import integer, real
from pg_mpi.files.atomic_file import write_json
from pg_mpi.files.csv_table import make_folder
from scaling import cli
from scaling.measure import timed_run
from scaling.model import exchange
from scaling.model.virtual import comparison
from scaling.pictures import score_curves
from scaling.score import learning_curves

#: Training settings that cannot be given here.
REFUSED = {"run_dir", "resume", "max_walltime", "target_return", "expect_ranks", "trace", "seed"}
REFUSED |= {"replay", "elastic"}  # not supported on virtual ranks
KIND = ("virtual", 2)


def parser():
    """Create the argument parser."""
    p = cli.parser(
        "scaling.model.virtual",
        "Train to a score on N virtual ranks in one process. A simulated clock charges each rank its own "
        "measured time and the modelled time of the exchange. Reports the score against wall-clock time and "
        "core-hours for each N, with medians over seeds.",
        "All other flags are those of pg_mpi.train. "
        "The command uses one core. The same command resumes a stopped run. N virtual ranks take about N times as "
        "long as real ones. "
        f"Networks: {', '.join(exchange.NAMED)}.",
    )
    cli.add_option(p, "--ranks", "N,N", cli.counts, "numbers of virtual ranks", "1,2,4,8")
    cli.add_option(p, "--seeds", "S,S", cli.numbers(integer(0)), "seeds of the training", "0")
    cli.add_option(p, "--network", "NAME", exchange.named, "network between nodes", "memory")
    cli.add_option(p, "--ranks-per-node", "P", integer(), "ranks that share a node and its link", 128)
    cli.add_option(p, "--target", "R", real(), "train to this mean of 100 games", 18)
    return cli.add_shared(p, "results and run folders", "runs/virtual", preset=True)


def main(argv):
    """Train the unfinished runs and report. Returns the exit code."""
    args, words = cli.parse_training(parser(), argv, REFUSED)
    config, _ = cli.check_training(words, *args.ranks)
    make_folder(args.out)
    same = {"network": args.network, "ranks_per_node": args.ranks_per_node, "words": words, "target": args.target}
    facts = cli.facts("scaling.model.virtual", argv)
    same |= {"settings": config.identity(), "cpu": facts["cpu"]}
    facts |= same
    # checkpoints do not store the network, so a run could resume with another one
    if not cli.read_parts(args.out, same, "*.json"):
        write_json(f"{args.out}/settings.json", facts)
    if code := train_all(args, words, facts):
        return code
    results = cli.read_parts(args.out, same)
    rows = comparison.compare(results)
    newest = max(results, key=lambda result: result["time"])
    csv = (*KIND, rows, {name: newest[name] for name in facts if name != "commit"})
    figure = (score_curves.draw_virtual, results)
    cli.write_result(args, "virtual", comparison.table(rows), {"rows": rows}, table=csv, draw=figure)
    return 0


def train_all(args, words, facts):
    """Train the unfinished runs and write their results. Returns the exit code of the first that fails, or 0."""
    for seed, ranks in itertools.product(args.seeds, args.ranks):
        name = f"{ranks:06d}-{seed}"
        run, place = Path(args.out, f"run-{name}"), Path(args.out, f"ranks-{name}.json")
        if not (run / "DONE").exists():
            how = [args.network, str(args.ranks_per_node), str(ranks)]
            own = ["--seed", str(seed), "--target-return", str(args.target)]
            if code := train(run, ranks, how, [*words, *own]):
                return code
        if not place.exists():
            keep(place, run, ranks, facts)
    return 0


def train(run, ranks, how, words):
    """Train on virtual ranks in a child process. A signal stops it with a checkpoint.

    ``how``: network, ranks per node and cores, as words of ``scaling.model.virtual.train``.
    """
    cli.say(f"{counted(ranks, 'virtual rank')} into {run}")
    line = [sys.executable, "-m", "scaling.model.virtual.train", str(ranks), *how, *words, "--run-dir", str(run)]
    with subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=sys.stderr, start_new_session=True) as job:
        try:
            job.wait()
        finally:  # wait for the checkpoint, also after Ctrl-C or a signal
            job.terminate()
            job.wait()
    return job.returncode


def keep(path, run, ranks, facts):
    """Write the result of a run folder, with the commit and time of the run."""
    result = {**facts, **learning_curves.summary(run), "command": facts["command"], "ranks": ranks}
    result["at_target"] = learning_curves.time_to(timed_run.read_metrics(run), facts["target"], strictly=False)
    write_json(str(path), result, indent=None)


if __name__ == "__main__":
    cli.run(main, resumable=True)
