"""Compare the steps that settings need to learn, each with several seeds, one run per core.

    python -m scaling.score.search SETTINGS.json --seeds 0-2 --steps 5e5 --out RESULTS.jsonl

SETTINGS.json holds {"common": "flags of pg_mpi.train", "try": {"name": "more flags", ...}}. Every run is a single
process with ``--envs-per-rank`` envs. Runs share the machine, so compare them by steps, not by seconds. RESULTS.jsonl
receives one line per run with its flags, commit and curve; existing runs are not repeated. ``--table`` prints them.
"""

import concurrent.futures
import json
import os
import queue
import shlex
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from pg_mpi.config.command_line import parse_train
from pg_mpi.config.errors import UsageError
from pg_mpi.config.parsers import Parser, checked, integer, spans
from pg_mpi.mpi.launch.mpirun import usable_threads
from scaling.score.learning_curves import summary

MARKS = (0.1e6, 0.2e6, 0.3e6, 0.4e6, 0.5e6, 0.75e6, 1e6, 1.5e6, 2e6, 3e6, 4e6)


def parser():
    """Create the argument parser."""
    p = Parser(prog="python -m scaling.score.search", description=__doc__.splitlines()[0], allow_abbrev=False)
    p.add_argument("settings", metavar="SETTINGS", help="a JSON file of settings to try")
    p.add_argument("--seeds", default="0-2", help="numbers or ranges with commas (default: 0-2)")
    p.add_argument("--steps", default="5e5", help="agent steps of each run (default: 5e5)")
    p.add_argument("--out", default="scaling/results/search.jsonl", help="results file")
    p.add_argument("--table", action="store_true", help="only print the table of the existing results")
    return p


def main(argv):
    """Run all settings, or print the table. Returns the exit code."""
    args = parser().parse(argv)
    out = Path(args.out)
    if not args.table:
        steps = checked(integer(), args.steps, "--steps")
        out.parent.mkdir(parents=True, exist_ok=True)
        jobs = _jobs(json.loads(Path(args.settings).read_text(encoding="utf-8")), args.seeds, steps)
        done = {(line["name"], line["seed"], line["steps"]) for line in _read(out)}
        _run_all([job for job in jobs if (job["name"], job["seed"], job["steps"]) not in done], out)
    print(table(_read(out)))
    return 0


def table(results):
    """Markdown table: per setting the mean score over seeds at some step counts, and the steps until above 0."""
    marks = [mark for mark in MARKS if any(result["end"]["env_steps"] >= mark for result in results)]
    lines = ["| setting | seeds | " + " | ".join(f"{mark / 1e6:g} M" for mark in marks) + " | above 0, M steps |"]
    lines.append("|---" * (len(marks) + 3) + "|")
    for name in dict.fromkeys(result["name"] for result in results):
        group = [result for result in results if result["name"] == name]
        cells = [_mean([score_at(result, mark) for result in group]) for mark in marks]
        zeros = ", ".join(f"{r['above_0']['env_steps'] / 1e6:.2f}" if r["above_0"] else "-" for r in group)
        lines.append(f"| {name} | {len(group)} | " + " | ".join(cells) + f" | {zeros} |")
    return "\n".join(lines)


def score_at(result, mark):
    """Mean of the last 100 games after ``mark`` steps of a run; None if it stopped before."""
    steps, score = (result["columns"].index(name) for name in ("env_steps", "return_mean"))
    return next((row[score] for row in result["curve"] if row[steps] >= mark), None)


def _jobs(settings, seeds, steps):
    """List all runs, seeds outermost, so that partial results cover all settings."""
    jobs = []
    for seed in checked(spans, seeds, "--seeds"):
        for name, flags in settings["try"].items():
            words = [*shlex.split(settings["common"]), *shlex.split(flags)]
            parse_train(words)  # find a wrong flag before the first run
            jobs.append({"name": name, "flags": shlex.join(words), "seed": seed, "steps": steps})
    return jobs


def _run_all(jobs, out):
    """Run one job per core at a time, and append each result when it is complete."""
    cores = queue.Queue()
    for core in sorted(os.sched_getaffinity(0))[: usable_threads()]:
        cores.put(core)

    def run(job):
        core = cores.get()
        try:
            return _run(job, core)
        finally:
            cores.put(core)

    with concurrent.futures.ThreadPoolExecutor(cores.qsize()) as pool:
        runs = concurrent.futures.as_completed([pool.submit(run, job) for job in jobs])
        for number, result in enumerate((done.result() for done in runs), start=1):
            with open(out, "a", encoding="utf-8") as file:
                file.write(json.dumps(result) + "\n")
            print(f"{number} of {len(jobs)}: {result['name']}, seed {result['seed']}", file=sys.stderr, flush=True)


def _run(job, core):
    """Train on one core. Returns the job with its summary."""
    with tempfile.TemporaryDirectory() as folder:
        flags = ["--seed", job["seed"], "--total-timesteps", job["steps"], "--checkpoint-every", 1000000]
        command = [
            sys.executable,
            "-m",
            "pg_mpi.train",
            *shlex.split(job["flags"]),
            *flags,
            "--run-dir",
            folder + "/run",
        ]
        done = subprocess.run(
            ["taskset", "-c", str(core), *map(str, command)], stdin=subprocess.DEVNULL, capture_output=True, text=True
        )
        if done.returncode:
            raise RuntimeError(f"{job['name']}, seed {job['seed']}: exit code {done.returncode}: {done.stderr[-500:]}")
        result = summary(Path(folder) / "run")
        return job | result | {"command": result["command"].replace(folder + "/", "")}


def _mean(scores):
    known = [score for score in scores if score is not None]
    return f"{statistics.fmean(known):+.1f}" if known else ""


def _read(out):
    return [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()] if out.exists() else []


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (UsageError, RuntimeError, OSError, ValueError) as error:
        sys.exit(f"scaling.score.search: {error}")
