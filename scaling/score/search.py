"""Compare the steps that settings need to learn, each with several seeds, one run per core.

    python -m scaling.score.search SETTINGS.json --seeds 0-2 --steps 5e5 --out RESULTS.jsonl

SETTINGS.json holds {"common": "flags of pg_mpi.train", "try": {"name": "more flags", ...}}. Every run is a single
process with ``--envs-per-rank`` envs. Runs share the machine, so compare them by steps, not by seconds. RESULTS.jsonl
receives one line per run with its flags, commit and curve; existing runs are not repeated. ``--table`` prints them,
``--picture`` draws them.
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
from pg_mpi.config.parsers import integer, spans
from pg_mpi.files.figure_file import check_picture
from pg_mpi.mpi.launch.mpirun import usable_threads
from scaling import cli
from scaling.measure import timed_run
from scaling.pictures.score_curves import draw_search
from scaling.score.learning_curves import summary
from scaling.tables import spread

MARKS = (0.1e6, 0.2e6, 0.3e6, 0.4e6, 0.5e6, 0.75e6, 1e6, 1.5e6, 2e6, 3e6, 4e6)
MANY = 5  # seeds from which medians are quoted


def parser():
    """Create the argument parser."""
    p = cli.parser("scaling.score.search", __doc__.splitlines()[0])
    p.add_argument("settings", metavar="SETTINGS", help="a JSON file of settings to try")
    cli.add_option(p, "--seeds", None, spans, "numbers or ranges with commas", "0-2")
    cli.add_option(p, "--steps", None, integer(), "agent steps of each run", "5e5")
    p.add_argument("--out", default="scaling/results/search.jsonl", help="results file")
    p.add_argument("--table", action="store_true", help="only print the tables of the existing results")
    p.add_argument("--picture", metavar="PNG", help="also draw the curves (extra: plot)")
    return p


def main(argv):
    """Run all settings, or print the table. Returns the exit code: 1 if a run failed."""
    args = parser().parse(argv)
    out, failed = Path(args.out), []
    if args.picture:
        check_picture(args.picture, "--picture")
    if not args.table:
        out.parent.mkdir(parents=True, exist_ok=True)
        jobs = _jobs(json.loads(Path(args.settings).read_text(encoding="utf-8")), args.seeds, args.steps)
        done = {(line["name"], line["seed"], line["steps"]) for line in _read(out)}
        failed = _run_all([job for job in jobs if (job["name"], job["seed"], job["steps"]) not in done], out)
    results = _read(out)
    print(table(results))
    if args.picture:
        draw_search(args.picture, results)
    return int(bool(failed))


def table(results):
    """Two markdown tables: each setting's mean score at some step counts, and million steps to three scores."""
    marks = [mark for mark in MARKS if any(result["end"]["env_steps"] >= mark for result in results)]
    groups = {name: [r for r in results if r["name"] == name] for name in dict.fromkeys(r["name"] for r in results)}
    scores = [["setting", "seeds", *(f"{mark / 1e6:g} M" for mark in marks)]]
    steps = [["setting", "above 0, M steps", "15", "18"]]
    for name, group in groups.items():
        scores.append([name, len(group), *(_mean([score_at(result, mark) for result in group]) for mark in marks)])
        steps.append([name, *(_steps_to(group, key) for key in ("above_0", "at_15", "at_18"))])
    return f"{_markdown(scores)}\n\n{_markdown(steps)}"


def score_at(result, mark):
    """Mean of the last 100 games after ``mark`` steps of a run. If it stopped before: its last one, if that was 18."""
    steps, score = (result["columns"].index(name) for name in ("env_steps", "return_mean"))
    stopped = result["end"]["return_mean"] if result["at_18"] else None
    return next((row[score] for row in result["curve"] if row[steps] >= mark), stopped)


def _steps_to(group, key):
    """Million steps of each run to a score, or their ``spread`` if there are many."""
    found = [result[key] and result[key]["env_steps"] / 1e6 for result in group]
    if len(group) >= MANY:
        return spread(found, "{:.2f}", less=True)
    return ", ".join(f"{each:.2f}" if each else "-" for each in found)


def _markdown(rows):
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in rows]
    return "\n".join([lines[0], "|---" * len(rows[0]) + "|", *lines[1:]])


def _jobs(settings, seeds, steps):
    """List all runs, seeds outermost, so that partial results cover all settings."""
    jobs = []
    for seed in seeds:
        for name, flags in settings["try"].items():
            words = [*shlex.split(settings["common"]), *shlex.split(flags)]
            parse_train(words)  # find a wrong flag before the first run
            jobs.append({"name": name, "flags": shlex.join(words), "seed": seed, "steps": steps})
    return jobs


def _run_all(jobs, out):
    """Run one job per core at a time, and append each result when it is complete. Returns the jobs that failed."""
    cores, failed = queue.Queue(), []
    for core in sorted(os.sched_getaffinity(0))[: usable_threads()]:
        cores.put(core)

    def run(job):
        core = cores.get()
        try:
            return _run(job, core)
        finally:
            cores.put(core)

    with concurrent.futures.ThreadPoolExecutor(cores.qsize()) as pool:
        runs = {pool.submit(run, job): job for job in jobs}
        for number, done in enumerate(concurrent.futures.as_completed(runs), start=1):
            label = f"{runs[done]['name']}, seed {runs[done]['seed']}"
            with timed_run.reported(failed, runs[done], label), open(out, "a", encoding="utf-8") as file:
                file.write(json.dumps(done.result()) + "\n")
                print(f"{number} of {len(jobs)}: {label}", file=sys.stderr, flush=True)
    return failed


def _run(job, core):
    """Train on one core. Returns the job with its summary."""
    with tempfile.TemporaryDirectory() as folder:
        flags = ["--seed", job["seed"], "--total-timesteps", job["steps"], "--checkpoint-every", 1000000]
        flags += ["--run-dir", folder + "/run"]
        command = ["taskset", "-c", core, sys.executable, "-m", "pg_mpi.train", *shlex.split(job["flags"]), *flags]
        done = subprocess.run(list(map(str, command)), stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"exit code {done.returncode}: {done.stderr[-500:]}")
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
