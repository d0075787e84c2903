"""Compare how fast settings learn, each with several seeds.

    python -m scaling.score.search SETTINGS.json --seeds 0-2 --steps 5e5 --out RESULTS.jsonl

SETTINGS.json holds {"common": "flags of pg_mpi.train", "try": {"name": "more flags", ...}}. By default every run is a
single process with ``--envs-per-rank`` envs, one per hardware thread. Such runs share the machine, so compare them by
steps, not by seconds. With ``--ranks N`` the runs take turns, alone on the machine, on N ranks each, and their seconds,
start-up included, can be compared too. RESULTS.jsonl receives one line per run with its flags, commit and curve;
existing runs are not repeated. ``--table`` prints them, ``--picture`` draws them.
"""

import json
import math
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from pg_mpi.config.errors import UsageError
from pg_mpi.config.parsers import integer, spans
from pg_mpi.files.atomic_file import drop_torn_line
from pg_mpi.files.csv_table import make_folder
from pg_mpi.files.figure_file import check_picture
from pg_mpi.mpi.launch.mpirun import launcher_for, start_command, usable_threads
from scaling import cli
from scaling.measure import timed_run
from scaling.pictures.score_curves import draw_search
from scaling.score.learning_curves import summary
from scaling.tables import markdown

MARKS = (0.1e6, 0.2e6, 0.3e6, 0.4e6, 0.5e6, 0.75e6, 1e6, 1.5e6, 2e6, 3e6, 4e6)
MANY = 5  # seeds from which medians are quoted
RESAMPLES = 10_000


def parser():
    """Create the argument parser."""
    p = cli.parser("scaling.score.search", __doc__.splitlines()[0])
    p.add_argument("settings", metavar="SETTINGS", help="a JSON file of settings to try")
    cli.add_option(p, "--seeds", None, spans, "numbers or ranges with commas", "0-2")
    cli.add_option(p, "--steps", None, integer(), "agent steps of each run", "5e5")
    cli.add_option(
        p, "--ranks", "N", integer(), "one run at a time, on N ranks (default: one process per hardware thread)"
    )
    p.add_argument("--out", default="runs/search.jsonl", help="results file")
    p.add_argument("--table", action="store_true", help="only print the tables of the existing results")
    p.add_argument("--picture", metavar="PNG", help="also draw the curves (extra: plot)")
    return p


def main(argv):
    """Run all settings, or print the table. Returns the exit code: 1 if a run failed."""
    args = parser().parse(argv)
    out, failed = Path(args.out), []
    if args.picture:
        check_picture(args.picture)
    if not args.table:
        drop_torn_line(args.out)
        jobs = missing(read_jobs(args), read_results(out), out)
        make_folder(out.parent)
        cores = sorted(os.sched_getaffinity(0))[: usable_threads()]
        failed = run_all(jobs, [None] if args.ranks else cores, out)
    groups = grouped(read_results(out))
    if args.table and not groups:
        raise UsageError(f"no results in {out}: run without --table first, or give another --out")
    print(table(groups))
    if args.picture:
        draw_search(args.picture, groups)
    return int(bool(failed))


def read_jobs(args):
    """List all runs of the settings file, seeds outermost, so that partial results cover all settings.

    Raises ``UsageError`` before the first run if a flag is wrong.
    """
    try:
        content = json.loads(Path(args.settings).read_text(encoding="utf-8"))
        common = shlex.split(content["common"])
        settings = {name: [*common, *shlex.split(flags)] for name, flags in content["try"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        wanted = '{"common": "FLAGS", "try": {"NAME": "MORE FLAGS", ...}}'
        raise UsageError(f"{args.settings} cannot be read: give a JSON file with {wanted}") from None
    jobs = [
        {"name": name, "flags": shlex.join(words), "settings": cli.check_training(words, args.ranks or 1)[0].identity()}
        for name, words in settings.items()
    ]
    alone = {"alone_on": args.ranks} if args.ranks else {}
    return [job | {"seed": seed, "steps": args.steps, **alone} for seed in args.seeds for job in jobs]


def missing(jobs, results, out):
    """Select the jobs without a result. Raises ``UsageError`` if one has a result of other flags or defaults."""
    known = {_key(result): result for result in results}
    for job in jobs:
        found = job | known.get(_key(job), {})
        if found["flags"] != job["flags"]:
            raise UsageError(f"{out} has {job['name']} with flags {found['flags']}: give another name, or --out")
        if found["settings"] != job["settings"]:
            raise UsageError(f"{out} has {job['name']} with other default settings: give another name, or --out")
    return [job for job in jobs if _key(job) not in known]


def _key(job):
    return job["name"], job["seed"], job["steps"], job.get("alone_on")


def run_all(jobs, slots, out):
    """Run one job per slot at a time, and append each result when it is complete. Returns the jobs that failed.

    ``slots``: a core for each; None: the whole machine.
    """
    waiting, running, failed = jobs[::-1], {}, []
    try:
        while waiting or running:
            for slot in slots:
                if waiting and slot not in running:
                    running[slot] = Run(waiting.pop(), slot)
            time.sleep(0.2)
            for slot in [slot for slot, run in running.items() if run.process.poll() is not None]:
                run = running.pop(slot)
                label = f"{run.job['name']}, seed {run.job['seed']}"
                with timed_run.reported(failed, run.job, label), open(out, "a", encoding="utf-8") as file:
                    file.write(json.dumps(run.result()) + "\n")
                    number = len(jobs) - len(waiting) - len(running)
                    cli.say(f"{number} of {len(jobs)}: {label}")
    finally:
        for run in running.values():
            run.end()
    return failed


class Run:
    """A job that trains in a temporary folder. Call ``result`` or ``end`` once.

    Args:
        core: that it uses; None: ``alone_on`` ranks on all of them.
    """

    def __init__(self, job, core):
        self.job, self._folder = job, tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        flags = ["--seed", job["seed"], "--total-timesteps", job["steps"]]
        if core is None:
            start = start_command(launcher_for(shlex.split(job["flags"])), job["alone_on"])
        else:
            start, flags = ["taskset", "-c", core], [*flags, "--checkpoint-every", 1000000]
        flags += ["--run-dir", f"{self._folder.name}/run"]
        line = [*start, sys.executable, "-m", "pg_mpi.train", *shlex.split(job["flags"]), *flags]
        with open(f"{self._folder.name}/output", "w") as output:
            pipes = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": output}
            self.process = subprocess.Popen(list(map(str, line)), start_new_session=True, **pipes)

    def result(self):
        """The job with its summary. Raises ``RunError`` if it failed."""
        with self._folder as folder:
            code, output = self.process.returncode, Path(folder, "output").read_text(encoding="utf-8", errors="replace")
            if code and timed_run.WHOLE not in output:
                raise timed_run.failure(code, output[-2000:])
            result = summary(Path(folder, "run"))
            return self.job | result | {"command": result["command"].replace(f"{folder}/", "")}

    def end(self):
        """Stop the training."""
        with self._folder:
            timed_run.end(self.process)


def read_results(out):
    """Read the lines of a results file, none if it does not exist. Raises ``UsageError`` if one is no result."""
    lines = out.read_text(encoding="utf-8").splitlines() if out.exists() else []
    try:
        results = [dict(json.loads(line)) for line in lines]
    except (ValueError, TypeError):
        results = [{}]
    if not all({"name", "flags", "seed", "steps", "curve", "end"} <= result.keys() for result in results):
        raise UsageError(f"{out} is damaged: a line of it is not a result of this command")
    return results


def grouped(results):
    """The results of each setting and number of ranks, and length if a seed has several: {label: results}."""
    groups = {}
    for result in results:
        label = result["name"] + (f", {result['alone_on']} ranks" if "alone_on" in result else "")
        groups.setdefault(label, []).append(result)
    for label in [label for label, group in groups.items() if len({each["seed"] for each in group}) < len(group)]:
        for result in groups.pop(label):
            groups.setdefault(f"{label}, {result['steps'] / 1e6:g} M steps", []).append(result)
    return groups


def table(groups):
    """Markdown tables: each setting's mean score at some step counts, million steps and seconds to three scores."""
    ends = [result["end"]["env_steps"] for group in groups.values() for result in group]
    marks = [mark for mark in MARKS if max(ends, default=0) >= mark]
    scores = [["setting", "seeds", *(f"{mark / 1e6:g} M" for mark in marks)]]
    for name, group in groups.items():
        scores.append([name, len(group), *(_mean([score_at(result, mark) for result in group]) for mark in marks)])
    tables = [scores, _costs(groups, "M steps", "env_steps", 1e6, "{:.2f}")]
    if alone := {name: group for name, group in groups.items() if "alone_on" in group[0]}:
        tables.append(_costs(alone, "s", "wall_s", 1, "{:.0f}"))
    return "\n\n".join(map(markdown, tables))


def score_at(result, mark):
    """Mean of the last 100 games after ``mark`` steps of a run, interpolated: a long run's curve has points far apart.

    None if it was not known yet. If the run ended before: its last one, if that was 18.
    """
    steps, score = (result["columns"].index(name) for name in ("env_steps", "return_mean"))
    known = [(row[steps], row[score]) for row in result["curve"] if row[score] is not None]
    if known and known[0][0] <= mark <= known[-1][0]:
        return float(np.interp(mark, *zip(*known)))
    end = result["end"]
    return end["return_mean"] if result["at_18"] and end["return_mean"] >= 18 and mark > end["env_steps"] else None


def _mean(scores):
    return "" if None in scores else f"{statistics.fmean(scores):+.1f}"


def _costs(groups, title, cost, unit, form):
    """Rows of the costs of each setting's runs to three scores, or of their ``spread`` if there are many."""
    rows = [["setting", f"above 0, {title}", "15", "18"]]
    for name, group in groups.items():
        rows.append([name])
        for key in ("above_0", "at_15", "at_18"):
            found = [result[key] and result[key][cost] / unit for result in group]
            each = ", ".join(form.format(value) if value else "-" for value in found)
            rows[-1].append(spread(found, form) if len(group) >= MANY else each)
    return rows


def spread(costs, form):
    """``median [95 % interval of the median], IQM, worst``, and the number of known costs if some are None.

    The interval is a percentile bootstrap. None counts as infinite.
    """
    from scipy.stats import trim_mean

    costs = [math.inf if cost is None else cost for cost in costs]
    known = sum(cost < math.inf for cost in costs)
    if not known:
        return f"never; 0 of {len(costs)}"
    picks = np.random.default_rng(0).choice(costs, (RESAMPLES, len(costs)))
    low, high = np.quantile(np.median(picks, axis=1), [0.025, 0.975], method="nearest")
    numbers = (np.median(costs), low, high, trim_mean(costs, 0.25), max(costs))
    middle, low, high, inner, worst = (form.format(number) if number < math.inf else "never" for number in numbers)
    text = f"{middle} [{low}, {high}], IQM {inner}, worst {worst}"
    return text if known == len(costs) else f"{text}; {known} of {len(costs)}"


if __name__ == "__main__":
    cli.run(main, resumable=True)
