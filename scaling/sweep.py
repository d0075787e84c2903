"""Steps/s against ranks: the same training, from scratch, on each number of ranks, one after another.

    python -m scaling.sweep --ranks 1,2,4 [--seconds 20] [--repeats 3] [--out FOLDER] [TRAIN FLAGS ...]

Each point is a start of ``pg_mpi.train`` by ``--launcher`` for ``--warmup`` and ``--seconds``; the warm-up, start-up
included, is left out. FOLDER gets one JSON file a point; those that are there are not run again, so an interrupted
sweep goes on. A point that fails is told and left out. ``jobs/scaling.slurm`` and ``jobs/scaling.pbs`` run this inside
one allocation.
"""

import json
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from pg_mpi.cluster.launch import kill_session
from pg_mpi.cluster.mpirun import mpirun_command, usable_threads
from pg_mpi.config import Parser, parse_train
from pg_mpi.parse import checked, integer, real
from pg_mpi.record.run_folder import write_json
from scaling import command

OWN = {"run_dir", "resume", "max_walltime", "total_timesteps", "target_return", "expect_ranks"}
SAME = ("rss_mb", "cpu_util", "updates_per_s")


def parser():
    """The command line."""
    p = Parser(prog="python -m scaling.sweep", description=__doc__.splitlines()[0], allow_abbrev=False)
    p.add_argument("--ranks", metavar="N,N,...", help="numbers of ranks (default: 1, 2, 4 ... and all usable threads)")
    p.add_argument("--launcher", default="mpirun", help='mpirun, or another, as "srun --mpi=pmix" (default: mpirun)')
    p.add_argument("--seconds", metavar="S", default="20", help="length of a point (default: 20)")
    p.add_argument("--warmup", metavar="S", default="5", help="left out at the start of each (default: 5)")
    p.add_argument("--repeats", metavar="K", default="1", help="times that each point is measured (default: 1)")
    p.add_argument("--out", metavar="FOLDER", default="runs/sweep", help="folder of the results (default: runs/sweep)")
    p.add_argument("--json", action="store_true", help="print one line of JSON, last")
    return p


def main(argv):
    """Measure what is missing, and print the table; the process's exit code: 1 if a point failed."""
    args, flags = parser().parse_known_args(argv)
    command.check_flags(flags, parser(), OWN)
    command.refuse_mpirun()
    parse_train(flags)
    seconds, warmup = (checked(real(0, open_low=True), getattr(args, n), f"--{n}") for n in ("seconds", "warmup"))
    repeats = checked(integer(), args.repeats, "--repeats")
    counts = checked(counts_of, args.ranks, "--ranks") if args.ranks else doubling(usable_threads())
    command.make_folder(args.out)
    failed = []
    for repeat in range(repeats):
        for ranks in counts:  # in turns, so that a drift of the machine meets all of them
            place = Path(args.out, f"ranks-{ranks:06d}-{repeat}.json")
            if place.exists():
                continue
            print(f"{ranks} ranks, {repeat + 1} of {repeats}, {warmup + seconds:g} s", file=sys.stderr, flush=True)
            try:
                result = point([*launch(args.launcher, ranks), sys.executable], flags, ranks, seconds, warmup)
            except RuntimeError as error:
                failed.append(ranks)
                print(f"pg_mpi: error: {ranks} ranks: {error}", file=sys.stderr, flush=True)
            else:
                write_json(str(place), result | command.facts("scaling.sweep", argv))
    results = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(Path(args.out).glob("ranks-*.json"))]
    rows = summary(results)
    print(table(rows))
    if args.json:
        print(json.dumps({"rows": rows, "failed": failed}))
    return int(bool(failed))


def counts_of(text):
    """Numbers of ranks from ``1,2,4``."""
    try:
        return sorted({integer()(word) for word in text.split(",")})
    except ValueError:
        raise ValueError("whole numbers above 0 with commas, as 1,2,4") from None


def doubling(most):
    """1, 2, 4 ... and ``most`` itself."""
    return sorted({2**k for k in range(most.bit_length())} | {most})


def launch(launcher, ranks):
    """The words that start a program on this many ranks."""
    first, *options = launcher.split()
    if first == "mpirun":
        return [*mpirun_command(ranks), *options]
    if first == "srun":
        return [first, *options, f"--ntasks={ranks}", "--cpus-per-task=1"]
    return [first, *options, "-n", str(ranks)]


def point(start, flags, ranks, seconds, warmup):
    """Train for a while: the point's speed, phases and use of the machine. Raises ``RuntimeError``."""
    folder = tempfile.mkdtemp(prefix=".sweep-", dir=".")  # seen from every node
    try:
        budget = ["--run-dir", folder, "--max-walltime", str(warmup + seconds), "--expect-ranks", str(ranks)]
        line = [*start, "-m", "pg_mpi.train", *flags, *budget]
        code, output, errors = _run(line)
        if code != 75 and "walltime budget" not in output:  # launchers may change the code
            said = [text for text in errors.splitlines() if text.startswith("pg_mpi: error: ")]
            raise RuntimeError(said[0][15:] if said else f"exit code {code}\n{errors.strip()}".strip())
        with open(Path(folder, "metrics.jsonl"), encoding="utf-8") as file:
            return measured([json.loads(text) for text in file], ranks, warmup)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(line):
    """Exit code, output and errors of a job, which ends with its ranks when this is stopped."""
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(line, start_new_session=True, **quiet) as job:
        try:
            output, errors = job.communicate()
        except BaseException:
            job.kill()
            kill_session(job.pid)
            raise
    return job.returncode, output, errors


def measured(lines, ranks, warmup):
    """What the metrics after the warm-up say of a point. Raises ``RuntimeError`` if nothing is left."""
    kept = [line for line in lines if line["wall_s"] >= warmup]
    if len(kept) < 2:
        raise RuntimeError(f"fewer than two updates after {warmup:g} s: give more --seconds")
    first, *rest = kept
    last = rest[-1]
    span, steps = last["wall_s"] - first["wall_s"], last["env_steps"] - first["env_steps"]
    names = last["phase_s"]
    return {
        "ranks": ranks,
        "sps": steps / span,
        "updates": len(rest),
        "phase_share": {name: sum(line["phase_s"][name] for line in rest) / span for name in names},
        "phase_max_share": {name: sum(line["phase_max_s"][name] for line in rest) / span for name in names},
        **{name: last[name] for name in SAME},
    }


def summary(results):
    """One row a number of ranks: medians over its repeats; efficiency against the fewest ranks."""
    counts = sorted({result["ranks"] for result in results})
    rows = []
    for ranks in counts:
        group = [result for result in results if result["ranks"] == ranks]
        middle = statistics.median(result["sps"] for result in group)
        base = rows[0]["sps"] / rows[0]["ranks"] if rows else middle / ranks
        shares = {n: statistics.median(r["phase_share"][n] for r in group) for n in group[0]["phase_share"]}
        rows.append(
            {
                "ranks": ranks,
                "sps": round(middle, 1),
                "efficiency": round(middle / ranks / base, 4),
                "wait_fraction": round(shares["wait"], 4),
                "repeats": len(group),
                "phase_share": {name: round(share, 4) for name, share in shares.items()},
                **{name: statistics.median(result[name] for result in group) for name in SAME},
            }
        )
    return rows


def table(rows):
    """The rows as lines for people."""
    lines = [f"{'ranks':>6}{'steps/s':>11}{'a rank':>9}{'efficiency':>12}{'waiting':>9}{'allreduce':>11}{'MB':>6}"]
    for row in rows:
        lines.append(
            f"{row['ranks']:>6}{row['sps']:>11,.0f}{row['sps'] / row['ranks']:>9,.0f}{row['efficiency']:>12.1%}"
            f"{row['wait_fraction']:>9.1%}{row['phase_share']['allreduce']:>11.1%}{row['rss_mb']:>6,.0f}"
        )
    return "\n".join(lines)


def _stop(number, frame):
    raise SystemExit(75)  # what was measured is kept; the same command goes on


if __name__ == "__main__":
    for number in (signal.SIGUSR1, signal.SIGTERM):
        signal.signal(number, _stop)
    command.run(main)
