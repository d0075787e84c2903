"""The benchmark: a frozen case, a figure of merit, and whether it is valid: ``pg-mpi benchmark``."""

import json
import sys
import zlib
from pathlib import Path

import numpy as np

from pg_mpi.config.batch_systems import allocated_nodes, allocated_ranks, job_facts
from pg_mpi.config.errors import RunError, UsageError, counted, one_line
from pg_mpi.config.parsers import choice, integer
from pg_mpi.files import checkpoint_folder
from pg_mpi.mpi.launch.mpirun import start_command, usable_cores
from scaling import cli
from scaling.measure import timed_run

#: Results of different versions must not be compared. Change it with anything below, or what it runs.
VERSION = 1
#: Every setting that the speed depends on, so that a new default does not change the case.
CASE = (
    "--env-id ALE/Pong-v5 --seed 1 --envs-per-rank 8 --sync steps --num-steps 128 --frame-skip 4 --sticky 0.25 "
    "--max-frames 108000 --actions minimal --rewards sign --features blobs --policy usual --hidden 64 --method clipped "
    "--update-epochs 4 --minibatch-size 512 --max-minibatches 8 --clip-coef 0.2 --ent-coef 0.01 --vf-coef 1 "
    "--max-grad-norm 0.5 --gamma 0.98 --gae-lambda 0.95 --learning-rate 7e-4 --anneal-timesteps 2000000 --replay false "
    "--checkpoint-every 1000000 --evaluate-every 0 --sync-check-every 50 --log-interval 30"
)
SECONDS, WARMUP = 110, 20  # of the measurement, start-up included, and of its beginning that does not count
#: The short case, whose weights must be equal on one rank and on all: an env per rank plays two rounds of 32 steps.
SHORT = "--env-id ALE/Pong-v5 --seed 1 --sync steps --num-steps 32 --reproducible --features blobs --hidden 64"
ROUNDS, STEPS = 2, 32
MOST = 256  # ranks of the short case: one rank makes as many emulators
SIZES = ("core", "node", "machine")
FILE = "benchmark.json"


def parser():
    """Create the argument parser."""
    p = cli.parser(
        "scaling.benchmark",
        "Measure the training speed of a frozen case, and print one line: FOM: N steps/s VALID, or INVALID: REASON. "
        "It is valid if the doctor finds no fault, and if a short reproducible training has equal weights on one rank "
        "and on all.",
        "core: one rank. node: one rank per core of this host. machine: the ranks of the job, or --ranks. About three "
        f"minutes. {FILE} has the record: the doctor's facts, nodes, versions. Exit code 1 if it is invalid.",
    )
    p.add_argument("size", type=choice(*SIZES), metavar="SIZE", help=f"one of {', '.join(SIZES)}")
    cli.add_option(p, "--ranks", "N", integer(), "ranks of machine (default: as the batch system allocated)")
    cli.add_option(p, "--launcher", "WORDS", None, "what starts the ranks, such as srun", "mpirun")
    return cli.add_shared(p, f"folder of {FILE} (default: runs/benchmark-SIZE)")


def main(argv):
    """Run the benchmark. Returns the exit code."""
    args = parser().parse(argv)
    if args.ranks and args.size != "machine":
        raise UsageError(f"--ranks is for the size machine: leave it out with {args.size}")
    ranks = {"core": 1, "node": usable_cores(), "machine": args.ranks or allocated_ranks()}[args.size]
    if not ranks:
        raise UsageError("machine needs a batch job, or the number of ranks: give --ranks")
    start_command(args.launcher, ranks)  # raises if there is no such launcher
    args.out = args.out or f"runs/benchmark-{args.size}"
    facts = cli.claim(args.out, FILE, "scaling.benchmark", argv)
    record = {"benchmark": VERSION, "size": args.size, "ranks": ranks, "case": CASE, "launcher": args.launcher}
    record |= {"job": job_facts(), "nodes": allocated_nodes(), **facts}
    failure = None
    try:
        record["doctor"] = examine(ranks, args.launcher)
        record["digests"] = digests(ranks, args.launcher)
        record |= measure(ranks, args.launcher)
    except (RunError, UsageError) as error:
        failure = one_line(error)
    reason = "; ".join(filter(None, (fault(record), failure))) or None  # the first may be the cause of the second
    record |= {"valid": reason is None, "reason": reason}
    cli.write_result(args, "benchmark", line_of(record), record, saved=record)
    return int(reason is not None)


def line_of(record):
    """The one line of a result."""
    if record["reason"] is not None:
        return f"INVALID: {record['reason']}"
    what = f"pg_mpi benchmark {VERSION}, {record['size']}, {counted(record['ranks'], 'rank')}"
    return f"FOM: {record['steps_per_s']:,.0f} steps/s VALID ({what})"


def fault(record):
    """Why a measurement is invalid; None if it is valid."""
    faults = [finding for finding in record.get("doctor", {}).get("findings", []) if finding["fault"]]
    if faults:
        return f"the doctor finds a fault: {faults[0]['name']}: {faults[0]['text']}"
    if len(set(record.get("digests", {}).values())) > 1:
        found = ", ".join(f"{digest:08x} on {ranks}" for ranks, digest in record["digests"].items())
        return f"a reproducible training has other weights on another number of ranks: {found}"
    return None


def examine(ranks, launcher):
    """The doctor's facts of a launch, as ``--json`` prints them. Raises ``RunError``."""
    cli.say(f"doctor on {counted(ranks, 'rank')}")
    line = [*start_command(launcher, ranks), sys.executable, "-m", "pg_mpi.doctor", "--json"]
    code, output, errors = timed_run.run([*line, "--expect-ranks", str(ranks)], limit=300)
    try:
        return json.loads(output.splitlines()[-1])
    except (ValueError, IndexError):
        raise timed_run.failure(code, errors) from None


def digests(ranks, launcher):
    """The CRC-32 of the weights after the short case, by the number of ranks: on one and on all, or twice on one."""
    many = min(ranks, MOST)
    runs = {f"{counted(many, 'rank')}": many, "1 rank" if many > 1 else "1 rank, again": 1}
    found = {}
    for name, number in runs.items():
        cli.say(f"short reproducible training on {name}")
        words = [*SHORT.split(), f"--envs-per-rank={many // number}", f"--total-timesteps={many * STEPS * ROUNDS}"]
        with timed_run.trained(number, words, 600, launcher) as folder:
            arrays = checkpoint_folder.load_newest(str(folder), cli.say)[1]
            found[name] = zlib.crc32(np.ascontiguousarray(arrays["theta"]).tobytes())
    return found


def measure(ranks, launcher):
    """Measure the case: steps per second, and where the time goes. Raises ``RunError``."""
    cli.say(f"measurement on {counted(ranks, 'rank')}, {SECONDS} s")
    with timed_run.trained(ranks, CASE.split(), SECONDS, launcher) as folder:
        result = timed_run.measured(timed_run.read_metrics(folder), WARMUP)
        config = json.loads(Path(folder, "config.json").read_text(encoding="utf-8"))
    return {"steps_per_s": result["sps"], "measured": result, "places": config["starts"][-1]["places"]}


if __name__ == "__main__":
    cli.run(main)
