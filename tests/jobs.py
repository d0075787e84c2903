"""Real MPI jobs in subprocesses, each with a hard limit, for the tests."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from pg_mpi.files import checkpoint_file
from pg_mpi.mpi.launch import launcher
from pg_mpi.mpi.launch.mpirun import mpirun_command

ROOT = Path(__file__).parents[1]
LIMIT = 90  # seconds until a job counts as hung

#: Said by an mpirun whose own listener did not come up, as happens now and then: no rank was started.
NOT_STARTED = "The PMIx server's listener thread failed to start"

#: Keys of a metrics line that may differ between equal runs.
TIMES = {"wall_s", "sps", "sps_total", "updates_per_s", "cpu_util", "gflops", "rss_mb", "restarts"}
TIMES |= {"phase_s", "phase_max_s"}

#: Small and quick settings that still use every part.
SMALL = ["--hidden", "16", "--minibatch-size", "512", "--update-epochs", "2"]
STEPS = ["--sync", "steps", "--num-steps", "128", "--minibatch-size", "128"]


def command(ranks, module, *args, under_mpi4py=False):
    """The command line of a job of ``module`` on ``ranks`` ranks."""
    python = [sys.executable, *(["-m", "mpi4py"] if under_mpi4py else []), "-m", module]
    return [*mpirun_command(ranks), *python, *map(str, args)]


def run(line, cwd, limit=LIMIT, **environment):
    """Run a command line to its end; a job that outlives ``limit`` is killed whole and fails the test."""
    result = finish(start(line, cwd, **environment), limit)
    if NOT_STARTED in result.stderr:
        result = finish(start(line, cwd, **environment), limit)
    return result


def finish(process, limit=30):
    """Wait for a started job; one that outlives ``limit`` seconds is killed whole and fails the test."""
    try:
        output, errors = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        end(process)
        output, errors = process.communicate()
        raise AssertionError(f"hung for {limit} s: {process.args}\n{output}\n{errors}") from None
    return subprocess.CompletedProcess(process.args, process.returncode, output, errors)


def end(process):
    """Kill a job whole: Open MPI's ranks have process groups of their own, but share mpirun's session."""
    process.kill()
    launcher.kill_session(process.pid)


def ranks_of(job):
    """The process of each rank that an Open MPI job has on this host, in the order of their numbers."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, StopIteration):
            if os.getsid(int(entry.name)) == job.pid:
                words = (entry / "environ").read_bytes().split(b"\0")
                name = b"OMPI_COMM_WORLD_RANK="
                found[int(next(word for word in words if word.startswith(name))[len(name) :])] = int(entry.name)
    return [found[rank] for rank in sorted(found)]


def hear_interrupts():
    """In a child: undo the ignored INT and HUP that a shell and nohup give to what runs in the background."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def start(line, cwd, **environment):
    """Start a command line in a session of its own."""
    return subprocess.Popen(
        line,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=hear_interrupts,
    )


def train(ranks, cwd, *args, code=0, under_mpi4py=False, **environment):
    """Train in ``cwd``/run with small settings; asserts the exit code and returns the finished process."""
    line = command(ranks, "pg_mpi.train", "--run-dir", "run", *SMALL, *args, under_mpi4py=under_mpi4py)
    result = run(line, cwd, **environment)
    assert result.returncode == code, f"exit {result.returncode}\n{result.stdout}\n{result.stderr}"
    return result


def metrics(cwd, run="run"):
    """All lines of a run's metrics."""
    with open(Path(cwd) / run / "metrics.jsonl", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def deterministic(cwd, run="run"):
    """The metrics without what may differ between equal runs."""
    return [{k: v for k, v in line.items() if k not in TIMES} for line in metrics(cwd, run)]


def newest(cwd, run="run"):
    """Path and bytes of a run's newest checkpoint."""
    path = checkpoint_file.candidates(str(Path(cwd) / run))[0]
    with open(path, "rb") as file:
        return path, file.read()


def one_line(result):
    """The single line that a refused job printed on standard error."""
    lines = [line for line in result.stderr.splitlines() if line.startswith("pg_mpi: error: ")]
    assert len(lines) == 1, result.stderr
    assert "Traceback" not in result.stderr + result.stdout
    return lines[0].removeprefix("pg_mpi: error: ")
