"""Run the trainer for some seconds and summarise its metrics.

All times are the trainer's own (``pg_mpi/learning/phases.py`` and ``throughput.py``), read from
``metrics.jsonl``.
"""

import contextlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from pg_mpi.config.errors import RunError, UsageError
from pg_mpi.files.metrics_file import read_lines
from pg_mpi.mpi.launch.launcher import kill_session
from pg_mpi.mpi.launch.mpirun import launcher_for, mpirun_command, start_command

USAGE = 2
WHOLE = "stopped: the walltime budget"  # what a run prints that ended as planned, not by a signal
PATIENCE = 180.0  # seconds beyond its budget after which a job is killed
#: Metrics averaged over updates, weighted by duration.
MEANS = ("cpu_util", "gflops")


@contextlib.contextmanager
def trained(ranks, flags, seconds, launcher="mpirun", nodes=None, keep=None):
    """Train for ``seconds``, start-up included. Context manager: the path of a temporary run folder.

    Args:
        launcher, nodes: as for ``start_command``.
        keep: path to move the run folder to (default: delete it).

    Raises ``UsageError`` with the trainer's message if it rejects the flags, and ``RunError`` if it fails.
    """
    # visible from every node
    with tempfile.TemporaryDirectory(prefix=".measured-", dir=".", ignore_cleanup_errors=True) as base:
        folder = Path(base, "run")
        budget = ["--run-dir", str(folder), "--max-walltime", str(seconds), "--expect-ranks", str(ranks)]
        start = start_command(launcher_for(flags, launcher), ranks, nodes)
        line = [*start, sys.executable, "-m", "pg_mpi.train", *flags, *budget]
        code, output, errors = run(line, seconds + PATIENCE)
        said = [text.partition("pg_mpi: error: ")[2] for text in errors.splitlines() if "pg_mpi: error: " in text]
        if code == USAGE and said:
            raise UsageError(said[0])
        if code and WHOLE not in output:  # launchers may change the code, and an error may have that of a stop
            raise RunError(said[0]) if said else failure(code, errors)
        yield folder
        if keep:
            shutil.rmtree(keep, ignore_errors=True)
            shutil.move(folder, keep)


def stolen():
    """(stolen, all) processor ticks since boot; stolen ones the host gave to other machines. Linux only."""
    with contextlib.suppress(OSError, ValueError), open("/proc/stat", encoding="ascii") as file:
        ticks = [int(word) for word in file.readline().split()[1:9]]
        return ticks[7], sum(ticks)
    return 0, 0


def run(line, limit=None, show_errors=False):
    """Run a job: exit code, output and errors. The job and its ranks end when this process is stopped.

    ``show_errors``: its standard error is passed through and not returned. Raises ``RunError`` if it does not
    end within ``limit`` seconds.
    """
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": None if show_errors else subprocess.PIPE}
    with subprocess.Popen(line, start_new_session=True, text=True, **pipes) as job:
        try:
            output, errors = job.communicate(timeout=limit)
        except BaseException as error:
            end(job)
            if isinstance(error, subprocess.TimeoutExpired):
                raise RunError(f"killed after {limit:g} s without an end") from None
            raise
    return job.returncode, output, errors


def failure(code, errors):
    """The ``RunError`` of a job: one line, with the exception or else the last line of ``errors``, printed before."""
    lines = errors.strip().splitlines()
    if len(lines) > 1:
        print(*lines, sep="\n", file=sys.stderr, flush=True)
    raised = [line for line in lines if re.match(r"[\w.]+(Error|Exception|Interrupt)\b", line)] or lines
    return RunError(": ".join([f"exit code {code}", *(line[:300] for line in raised[-1:])]))


def result_of(ranks, module, argv):
    """Run ``python -m MODULE FOLDER ARGV`` on some ranks and return what they write to FOLDER/measured.json.

    Their standard error is passed through. Raises ``SystemExit`` with their exit code if they fail.
    """
    with tempfile.TemporaryDirectory(prefix="measured-") as folder:
        start = mpirun_command(ranks) if ranks > 1 else []
        code, *_ = run([*start, sys.executable, "-m", module, folder, *argv], show_errors=True)
        if code:
            raise SystemExit(code)
        return json.loads(Path(folder, "measured.json").read_text(encoding="utf-8"))


@contextlib.contextmanager
def reported(failed, key, label):
    """Context that reports the failure of the measurement ``label`` and adds ``key`` to ``failed``."""
    try:
        yield
    except (RunError, UsageError) as error:
        failed.append(key)
        print(f"pg_mpi: error: {label}: {error}", file=sys.stderr, flush=True)


def end(job):
    """End a job and its ranks: SIGTERM first, so that a launcher can stop other hosts, then SIGKILL."""
    job.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        job.wait(5)
    job.kill()
    kill_session(job.pid)


def read_metrics(folder):
    """Read the lines of a run's ``metrics.jsonl``. Raises ``UsageError`` if it is missing or not of this version."""
    path = Path(folder, "metrics.jsonl")
    lines, damaged = read_lines(str(path))
    if damaged:
        raise UsageError(f"{path} is damaged: a line of it is not one of metrics")
    wanted = {"wall_s", "env_steps", "update", "ranks", "phase_s", "phase_max_s", "sps", "exchanges", "games"}
    wanted |= {"bytes_exchanged", "rss_mb", "updates_per_s", "restarts", *MEANS}
    numbers = wanted - {"phase_s", "phase_max_s"}
    if not all(wanted <= line.keys() and all(isinstance(line[n], (int, float)) for n in numbers) for line in lines):
        raise UsageError(f"{path} is not of this version of pg_mpi: its lines lack keys such as phase_s")
    return lines


def check_whole(lines, steps):
    """Raise ``RunError`` if a run ended before ``steps`` steps, or before two updates."""
    if len(lines) < 2 or lines[-1]["env_steps"] < steps:
        raise RunError(
            f"{lines[-1]['env_steps']:,} of {steps:,} steps in {lines[-1]['wall_s']:.0f} s and {len(lines)} updates: "
            "give more --steps-per-rank for two updates, or fewer for less time"
        )


def measured(lines, warmup):
    """Summarise the metrics after ``warmup`` seconds: a dict. Raises ``RunError`` with fewer than two updates.

    ``phase_share`` and ``phase_max_share`` are shares of the wall time of the mean and of the slowest rank. ``other``
    is the time outside of all phases (recording steps, Python between the phases).
    """
    kept = [line for line in lines if line["wall_s"] >= warmup]
    if len(kept) < 2:
        raise RunError(f"fewer than two updates after {warmup:g} s: give more --seconds")
    first, *rest = kept
    last = rest[-1]
    span, steps = last["wall_s"] - first["wall_s"], last["env_steps"] - first["env_steps"]
    shares, slowest = (
        {n: sum(line[k][n] for line in rest) / span for n in last[k]} for k in ("phase_s", "phase_max_s")
    )
    return {
        "ranks": last["ranks"],
        "sps": steps / span,
        "between_updates": [first["update"], last["update"]],
        "updates_per_s": len(rest) / span,
        "bytes_per_update": (last["bytes_exchanged"] - first["bytes_exchanged"]) / len(rest),
        "exchanges_per_update": (last["exchanges"] - first["exchanges"]) / len(rest),
        "rss_mb": max(line["rss_mb"] for line in rest),
        **{name: sum(line[name] / line["updates_per_s"] for line in rest) / span for name in MEANS},
        "phase_share": {**shares, "other": 1 - sum(shares.values())},
        "phase_max_share": slowest,
    }
