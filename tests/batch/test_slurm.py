"""jobs/train.slurm on a real SLURM: submitted, stopped early, preempted, killed - and finished all the same."""

import json
import os
import signal
import sys
import time
from pathlib import Path

import jobs
import pytest
from hosts import wait_for

SCRIPT = jobs.ROOT / "jobs" / "train.slurm"
pytestmark = pytest.mark.batch
PLACE = {"PG_MPI_HOME": str(jobs.ROOT), "PG_MPI_PYTHON": sys.executable}
SMALL = [*jobs.SMALL, "--log-interval", "2"]


def submit(slurm, cwd, options, *flags, **environment):
    """Submit the script on one rank a node, small games; the job's number."""
    line = ["--ntasks-per-node=1", "--time=5", "--output=job.log", *options, SCRIPT, "--run-dir", "run", *SMALL, *flags]
    return slurm.submit(cwd, *line, **PLACE, **environment)


def log(cwd):
    path = Path(cwd) / "job.log"
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def starts(cwd):
    """What each start of the run folder was told, in order."""
    config = Path(cwd) / "run" / "config.json"
    return json.loads(config.read_text(encoding="utf-8"))["starts"] if config.exists() else []


def trains(cwd, updates=1, run="run"):
    """True once so many updates are in the metrics."""
    path = Path(cwd) / run / "metrics.jsonl"
    return path.exists() and len(path.read_text(encoding="utf-8").splitlines()) >= updates


@pytest.mark.parametrize("nodes", [1, 2, 4])
@pytest.mark.parametrize("launcher", ["mpirun", "srun --mpi=pmix"])
def test_a_job_finishes_in_one_world(slurm, tmp_path, nodes, launcher):
    job = submit(slurm, tmp_path, [f"--nodes={nodes}"], "--total-timesteps", "3000", PG_MPI_LAUNCHER=launcher)
    slurm.until(job, "COMPLETED", 90)
    assert (tmp_path / "run" / "DONE").exists(), log(tmp_path)
    (start,) = starts(tmp_path)
    assert start["ranks"] == nodes and start["job"]["SLURM_JOB_ID"] == job
    assert f"{nodes} ranks by {launcher}" in log(tmp_path)


def test_the_launcher_is_found(slurm, tmp_path):
    job = submit(slurm, tmp_path, ["--nodes=2"], "--total-timesteps", "2000")
    slurm.until(job, "COMPLETED", 120)
    assert "2 ranks by srun --mpi=pmix" in log(tmp_path)


def test_the_doctor_speaks_first(slurm, tmp_path):
    job = submit(slurm, tmp_path, ["--nodes=1"], "--total-timesteps", "1000", PG_MPI_LAUNCHER="mpirun", DOCTOR="1")
    slurm.until(job, "COMPLETED", 90)
    text = log(tmp_path)
    assert 0 < text.index("verdict: sane") < text.index("new run in run")


def test_a_chain_of_starts_ends_with_the_same_bits(slurm, tmp_path):
    """Three times the job is told that its time is up, and it ends as one that ran through."""
    flags = ["--total-timesteps", "110000"]
    (tmp_path / "chain").mkdir()
    (tmp_path / "whole").mkdir()
    options = ["--nodes=2", "--time=1", "--signal=B:USR1@45"]
    job = submit(slurm, tmp_path / "chain", options, *flags, PG_MPI_LAUNCHER="mpirun", PG_MPI_LEAD="5")
    slurm.until(job, "COMPLETED", 300)
    told = starts(tmp_path / "chain")
    assert len(told) >= 4, log(tmp_path / "chain")
    whole = submit(slurm, tmp_path / "whole", ["--nodes=2"], *flags, PG_MPI_LAUNCHER="mpirun")
    slurm.until(whole, "COMPLETED", 200)
    assert len(starts(tmp_path / "whole")) == 1
    assert jobs.newest(tmp_path / "chain")[1] == jobs.newest(tmp_path / "whole")[1]
    assert jobs.deterministic(tmp_path / "chain") == jobs.deterministic(tmp_path / "whole")


def test_a_preempted_job_goes_on(slurm, tmp_path):
    (tmp_path / "high").mkdir()
    flags = ["--total-timesteps", "25000"]
    job = submit(slurm, tmp_path, ["--nodes=4", "--exclusive"], *flags, PG_MPI_LAUNCHER="mpirun")
    wait_for(lambda: trains(tmp_path, 2), 60, "the first updates")
    high = slurm.submit(tmp_path / "high", "-p", "high", "--nodes=4", "--exclusive", "--wrap", "sleep 2")
    slurm.until(high, "COMPLETED", 60)
    slurm.until(job, "COMPLETED", 120)
    assert (tmp_path / "run" / "DONE").exists() and len(starts(tmp_path)) >= 2, log(tmp_path)


def test_a_killed_rank_is_run_again(slurm, tmp_path):
    flags = ["--total-timesteps", "25000", "--checkpoint-every", "2"]
    job = submit(slurm, tmp_path, ["--nodes=4"], *flags, PG_MPI_LAUNCHER="mpirun")
    wait_for(lambda: trains(tmp_path, 6), 60, "the first updates")
    kill_a_rank(job)
    began = time.monotonic()
    wait_for(lambda: "runs again" in log(tmp_path), 30, "the job to notice")
    assert time.monotonic() - began < 30
    slurm.until(job, "COMPLETED", 120)
    assert (tmp_path / "run" / "DONE").exists() and len(starts(tmp_path)) == 2, log(tmp_path)


def kill_a_rank(job):
    """SIGKILL one process of the job that trains and is not rank 0."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "environ").read_bytes().split(b"\0")
            line = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if f"SLURM_JOB_ID={job}".encode() in words and b"OMPI_COMM_WORLD_RANK=2" in words and b"pg_mpi.train" in line:
            return os.kill(int(entry.name), signal.SIGKILL)
    raise AssertionError("no rank 2 is running")


def test_starts_without_progress_end_it(slurm, tmp_path):
    """A trainer that dies before its first checkpoint, each time, is not run for ever."""
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    (tmp_path / "run" / "checkpoints" / "step-000000000100.npz").write_bytes(b"nothing")
    job = submit(slurm, tmp_path, ["--nodes=1"], PG_MPI_LAUNCHER="/bin/false", PG_MPI_STALLS="2")
    slurm.until(job, "FAILED", 90)
    assert slurm.job(job)["ExitCode"] == "1:0"
    assert "2 starts in a row made no progress: stopped for good" in log(tmp_path)


def test_wrong_usage_is_not_run_again(slurm, tmp_path):
    job = submit(slurm, tmp_path, ["--nodes=2"], "--gama", "0.9")
    slurm.until(job, "FAILED", 60)
    assert log(tmp_path).count("did you mean --gamma") == 1
    assert slurm.job(job)["Restarts"] == "0" and slurm.job(job)["ExitCode"] == "2:0"
