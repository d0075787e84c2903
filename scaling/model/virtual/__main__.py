"""Train on virtual ranks with a simulated clock: ``python -m scaling.model.virtual``."""

import itertools
import re
import subprocess
import sys
import time
from pathlib import Path

from pg_mpi.config.errors import UsageError
from pg_mpi.config.parsers import integer, real
from pg_mpi.files.atomic_file import write_json
from pg_mpi.files.csv_table import make_folder
from scaling import cli
from scaling.csv_io import read_parts
from scaling.measure import timed_run
from scaling.model import exchange
from scaling.model.virtual import comparison
from scaling.pictures import score_curves
from scaling.score import learning_curves

#: Training settings that cannot be given here.
REFUSED = {"run_dir", "resume", "max_walltime", "target_return", "expect_ranks", "trace", "seed"}
REFUSED |= {"replay", "elastic"}  # not supported on virtual ranks
KIND = ("virtual", 2)
#: A number to scale with the ranks, such as ``1024x`` or ``2e6x0.5``.
SCALED = re.compile(r"(\d+(?:\.\d+)?(?:e\d+)?)x(-?\d+(?:\.\d+)?)?")


def parser():
    """Create the argument parser."""
    p = cli.parser(
        "scaling.model.virtual",
        "Train to a score on N virtual ranks in one process. A simulated clock charges each rank its own "
        "measured time and the modelled time of the exchange. Reports the score against wall-clock time and "
        "core-hours for each N, with medians over seeds.",
        "All other flags are those of pg_mpi.train. A suffix x multiplies a number by the number of ranks "
        "(--minibatch-size 1024x), x0.5 by its square root, and x-1 divides it among the ranks (--num-steps 4096x-1). "
        "The command uses one core. The same command resumes a stopped run. N virtual ranks take about N times as "
        "long as real ones. "
        f"Networks: {', '.join(exchange.NAMED)}, or microseconds:GB/s such as 1.5:12.",
    )
    cli.add_option(p, "--ranks", "N,N", cli.counts, "numbers of virtual ranks", "1,2,4,8")
    cli.add_option(p, "--seeds", "S,S", cli.numbers(integer(0)), "seeds of the training", "0")
    cli.add_option(p, "--network", "NAME", cli.as_text(exchange.named), "network between nodes", "memory")
    cli.add_option(p, "--ranks-per-node", "P", integer(), "ranks that share a node and its link", 128)
    cli.add_option(p, "--target", "R", cli.as_text(real()), "train to this mean of 100 games", 18)
    return cli.add_shared(p, "results and run folders", "runs/virtual", preset=True)


def main(argv):
    """Train the unfinished runs and report. Returns the exit code."""
    args, words = cli.parse_training(parser(), argv, REFUSED)
    for ranks in args.ranks:
        cli.check_training(for_each(words, ranks), ranks)
    make_folder(args.out)
    same = {"network": args.network, "ranks_per_node": args.ranks_per_node, "words": words}
    same["target"] = float(args.target)
    facts = same | cli.facts("scaling.model.virtual", argv)
    # checkpoints do not store the network, so a run could resume with another one
    if not read_parts(args.out, same, "*.json"):
        write_json(f"{args.out}/settings.json", facts)
    if code := train_all(args, words, facts):
        return code
    results = read_parts(args.out, same)
    rows = comparison.compare(results)
    newest = max(results, key=lambda result: result["time"])
    csv = (*KIND, rows, {name: newest[name] for name in facts})
    figure = (score_curves.draw_virtual, results)
    cli.write_result(args, "virtual", comparison.table(results, rows), {"rows": rows}, table=csv, draw=figure)
    return 0


def train_all(args, words, facts):
    """Train the unfinished runs and write their results. Returns the exit code of the first that fails, or 0."""
    for seed, ranks in itertools.product(args.seeds, args.ranks):
        name = f"{ranks:06d}-{seed}"
        run, place = Path(args.out, f"run-{name}"), Path(args.out, f"ranks-{name}.json")
        begun = time.monotonic()
        if not (run / "DONE").exists():
            how = [args.network, str(args.ranks_per_node), str(ranks)]
            own = ["--seed", str(seed), "--target-return", args.target]
            if code := train(run, ranks, how, [*for_each(words, ranks), *own]):
                return code
        if not place.exists():
            keep(place, run, ranks, time.monotonic() - begun, facts)
    return 0


def for_each(words, ranks):
    """Replace numbers such as ``1024x`` or ``2e6x0.5`` by the number times ``ranks``, or times a power of it."""
    apart = [word for each in words for word in (each.split("=", 1) if each.startswith("--") else [each])]
    return [_scaled(*found.groups(), ranks) if (found := SCALED.fullmatch(word)) else word for word in apart]


def _scaled(number, power, ranks):
    try:
        return str(max(1, round(float(number) * ranks ** float(power or 1))))
    except OverflowError:
        raise UsageError(f"{number}x{power or ''} is too large with {ranks} ranks: give a smaller number") from None


def train(run, ranks, how, words):
    """Train on virtual ranks in a child process. A signal stops it with a checkpoint.

    ``how``: network, ranks per node and cores, as words of ``scaling.model.virtual.train``.
    """
    cli.say(f"{ranks} virtual ranks into {run}")
    line = [sys.executable, "-m", "scaling.model.virtual.train", str(ranks), *how, *words, "--run-dir", str(run)]
    with subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=sys.stderr, start_new_session=True) as job:
        try:
            job.wait()
        finally:  # wait for the checkpoint, also after Ctrl-C or a signal
            job.terminate()
            job.wait()
    return job.returncode


def keep(path, run, ranks, seconds, facts):
    """Write the result of a run folder."""
    result = {**learning_curves.summary(run), **facts, "ranks": ranks, "machine_s": round(seconds, 1)}
    result["at_target"] = learning_curves.time_to(timed_run.read_metrics(run), facts["target"], strictly=False)
    write_json(str(path), result, indent=None)


if __name__ == "__main__":
    cli.run(main, goes_on=True)
