"""What the tests of job scripts have in common: a small run in a folder of its own, and what it left there."""

import json
import os
import signal
import sys
from pathlib import Path

import jobs
from hosts import wait_for

SCRIPTS = jobs.ROOT / "jobs"
PLACE = {"PG_MPI_HOME": str(jobs.ROOT), "PG_MPI_PYTHON": sys.executable}
SMALL = [*jobs.SMALL, "--log-interval", "2"]


def submit(slurm, cwd, options, *flags, script="train.slurm", **environment):
    """Submit a script on one rank a node with small games, train.slurm's into ``run``; the job's number."""
    line = ["--ntasks-per-node=1", "--time=5", "--output=job.log", *options, SCRIPTS / script]
    run = ["--run-dir", "run"] if script == "train.slurm" else []
    return slurm.submit(cwd, *line, *run, *SMALL, *flags, **PLACE, **environment)


def log(cwd, name="job.log"):
    """What a job has printed so far."""
    path = Path(cwd) / name
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def starts(cwd, run="run"):
    """What each start of the run folder was told, in order."""
    config = Path(cwd) / run / "config.json"
    return json.loads(config.read_text(encoding="utf-8"))["starts"] if config.exists() else []


def finished(cwd, run="run"):
    """True if the run folder says so."""
    return (Path(cwd) / run / "DONE").exists()


def until_it_trains(cwd, updates=1, run="run"):
    """Wait until so many updates are in the metrics."""
    path = Path(cwd) / run / "metrics.jsonl"
    wait_for(lambda: path.exists() and path.read_text().count("\n") >= updates, 60, lambda: log(cwd))


def ranks_of(job):
    """The processes of a job that train: {rank: pid}."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            pairs = (word.partition(b"=") for word in (entry / "environ").read_bytes().split(b"\0"))
            told = {name: value for name, _, value in pairs}
            line = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        rank = told.get(b"OMPI_COMM_WORLD_RANK", told.get(b"PMIX_RANK"))
        if told.get(b"SLURM_JOB_ID") == job.encode() and rank and b"pg_mpi.train" in line:
            found[int(rank)] = int(entry.name)
    return found


def kill_a_rank(job, rank=2):
    """SIGKILL one process of the job that trains."""
    os.kill(ranks_of(job)[rank], signal.SIGKILL)


def same_end(one, other, run="run"):
    """Assert that two runs ended with the same bytes in their checkpoints and the same metrics."""
    assert jobs.newest(one, run)[1] == jobs.newest(other, run)[1]
    assert jobs.deterministic(one, run) == jobs.deterministic(other, run)
