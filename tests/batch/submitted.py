"""Submit small runs with the job scripts, and read their logs and run folders."""

import json
import os
import signal
import sys
from pathlib import Path

import jobs
from hosts import wait_for

SCRIPTS = jobs.ROOT / "jobs"
#: Environment variables of the job scripts.
ENVIRONMENT = {"PG_MPI_HOME": str(jobs.ROOT), "PG_MPI_PYTHON": sys.executable}
SMALL = [*jobs.SMALL, "--log-interval", "2"]


def submit(slurm, cwd, options, *flags, script="train.slurm", **environment):
    """Submit a script with small settings and one rank per node, and return the job's number. Runs are in ``run``."""
    line = ["--ntasks-per-node=1", "--time=5", "--output=job.log", *options, SCRIPTS / script]
    run = ["--run-dir", "run"] if script == "train.slurm" else []
    return slurm.submit(cwd, *line, *run, *SMALL, *flags, **ENVIRONMENT, **environment)


def log(cwd, name="job.log"):
    """Return the output of a job so far."""
    path = Path(cwd) / name
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def starts(cwd, run="run"):
    """Return the facts of each start of a run, in order, from its config.json."""
    config = Path(cwd) / run / "config.json"
    return json.loads(config.read_text(encoding="utf-8"))["starts"] if config.exists() else []


def finished(cwd, run="run"):
    """Return True if the run folder is marked DONE."""
    return (Path(cwd) / run / "DONE").exists()


def wait_for_updates(cwd, updates=1, run="run"):
    """Wait until a run has written ``updates`` metrics lines."""
    path = Path(cwd) / run / "metrics.jsonl"
    wait_for(lambda: path.exists() and path.read_text().count("\n") >= updates, 60, lambda: log(cwd))


def ranks_of(job):
    """Return the training processes of a job: {rank: pid}."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            pairs = (word.partition(b"=") for word in (entry / "environ").read_bytes().split(b"\0"))
            variables = {name: value for name, _, value in pairs}
            line = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        rank = variables.get(b"OMPI_COMM_WORLD_RANK", variables.get(b"PMIX_RANK"))
        if variables.get(b"SLURM_JOB_ID") == job.encode() and rank and b"pg_mpi.train" in line:
            found[int(rank)] = int(entry.name)
    return found


def kill_rank(job, rank=2):
    """Send SIGKILL to one rank of a job."""
    os.kill(ranks_of(job)[rank], signal.SIGKILL)


def assert_equal_results(one, other, run="run"):
    """Assert that two runs have equal final checkpoints and equal metrics."""
    there, here = (jobs.newest(folder, run)[0] for folder in (one, other))
    assert Path(there).name == Path(here).name
    jobs.assert_equal_states(there, here)  # on another number of hosts it has other parts
    assert jobs.deterministic(one, run) == jobs.deterministic(other, run)
