"""Compare virtual ranks with real ones: equality of the weights, and error of the virtual clock.

    python -m scaling.model.virtual.check --ranks 1,2,4 --repeats 3 --out runs/check

Real and virtual runs with the same flags alternate. Times are measured from the end of the first update to the end of
the last, and are compared as medians over the repeats.
"""

import sys
from pathlib import Path

from pg_mpi.config.parsers import integer
from pg_mpi.files import checkpoint_folder
from pg_mpi.mpi.launch.mpirun import usable_threads
from scaling import cli
from scaling.measure import timed_run
from scaling.model.virtual.__main__ import REFUSED as BY_VIRTUAL
from scaling.tables import aligned, medians

KIND = ("virtual-check", 1)
REFUSED = BY_VIRTUAL | {"total_timesteps"}
PATIENCE = 900.0  # seconds


def parser():
    """Create the argument parser."""
    p = cli.parser(
        "scaling.model.virtual.check",
        "Train on real and on virtual ranks in turns. Reports whether the weights are equal bit for bit, "
        "and the error of the virtual clock. Ranks beyond this machine's cores share them, virtual ones too.",
        "All other flags are those of pg_mpi.train. Run nothing else on the machine meanwhile.",
    )
    cli.add_option(p, "--ranks", "N,N", cli.counts, "numbers of ranks", "1,2,4")
    cli.add_option(p, "--repeats", "R", integer(), "runs of each kind", 3)
    cli.add_option(p, "--steps-per-rank", "T", integer(), "length of each run", 15000)
    return cli.add_shared(p, "results folder", "runs/check", preset=True)


def main(argv):
    """Run, compare and report. Returns exit code 1 if weights differ."""
    args, words = cli.parse_training(parser(), argv, REFUSED)
    cli.check_training(words, *args.ranks)
    facts = cli.claim(args.out, "check.csv", "scaling.model.virtual.check", argv)
    rows = []
    for repeat in range(args.repeats):
        for ranks in args.ranks:
            cli.say(f"{ranks} ranks, {repeat + 1} of {args.repeats}")
            steps = args.steps_per_rank * ranks
            flags = [*words, "--total-timesteps", str(steps)]
            rows.append({"repeat": repeat, "ranks": ranks, **compare(ranks, flags, steps)})
    said = [summary([row for row in rows if row["ranks"] == ranks]) for ranks in args.ranks]
    cli.write_result(args, "check", aligned(said), {"rows": said}, table=(*KIND, rows, facts))
    return int(not all(each["same_weights"] for each in said))


def compare(ranks, flags, steps):
    """Run ``steps`` steps on real and on virtual ranks: a row."""
    with timed_run.trained(ranks, flags, PATIENCE) as folder:
        timed_run.check_whole(timed_run.read_metrics(folder), steps)
        beside = Path(folder).with_name("virtual")
        own = [str(ranks), "memory", str(ranks), str(min(ranks, usable_threads()))]
        line = [sys.executable, "-m", "scaling.model.virtual.train", *own, *flags, "--run-dir", str(beside)]
        code, _, errors = timed_run.run(line, limit=PATIENCE)
        if code:
            raise timed_run.failure(code, errors)
        runs = {"real": _read(folder), "virtual": _read(beside)}
    row = {f"{kind}_{name}": run[name] for name in ("s", "sps", "wait", "allreduce") for kind, run in runs.items()}
    return {**row, "same_weights": runs["real"]["theta"] == runs["virtual"]["theta"]}


def _read(folder):
    """A finished run: its weights as bytes, and its seconds, speed and phase shares after the first update."""
    _, arrays, _ = checkpoint_folder.load_newest(str(folder), lambda line: None)
    lines = timed_run.read_metrics(folder)
    found = timed_run.measured(lines, 0.0)
    return {
        "theta": arrays["theta"].tobytes(),
        "s": round(lines[-1]["wall_s"] - lines[0]["wall_s"], 4),
        "sps": round(found["sps"], 1),
        **{name: round(found["phase_share"][name], 4) for name in ("wait", "allreduce")},
    }


def summary(rows):
    """Medians over the repeats of one number of ranks. ``error`` is that of the virtual seconds."""
    middle = medians([{name: value for name, value in row.items() if name != "repeat"} for row in rows])
    error = middle["virtual_s"] / middle["real_s"] - 1
    return {**middle, "error": error, "same_weights": all(row["same_weights"] for row in rows)}


if __name__ == "__main__":
    cli.run(main)
