"""Launchers of another MPI, which start separate jobs of one rank; MPICH; and staged jobs."""

import json
import subprocess
import sys

import jobs
import pytest
from submitted import ENVIRONMENT, finished, log, starts, submit

pytestmark = pytest.mark.batch


@pytest.fixture(scope="module")
def mpich(tmp_path_factory):
    """Install MPICH from PyPI in a virtual environment and return its folder."""
    folder = tmp_path_factory.mktemp("mpich")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    pip = [sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "install", "-q", "mpich"]
    subprocess.run(pip, check=True, timeout=120)
    return folder


def run_job(slurm, cwd, line, state):
    """Run a command line as a job on two nodes, wait until it is in ``state``, and return its output."""
    options = ["--nodes=2", "--ntasks-per-node=1", "--output=job.log", "--wrap", line]
    job = slurm.submit(cwd, *options, **ENVIRONMENT, PYTHONPATH=str(jobs.ROOT))
    slurm.wait_for_state(job, state, 60)
    return log(cwd)


@pytest.mark.parametrize("pmi", ["none", "pmi2"])
def test_srun_with_another_pmi_is_refused(slurm, tmp_path, pmi):
    """Each process is a world of one rank. The doctor reports it once, and the trainer refuses to start."""
    line = f"srun --mpi={pmi} {sys.executable} -m"
    text = run_job(slurm, tmp_path, f"{line} pg_mpi.doctor --strict --json --seconds 0.2", "FAILED")
    (finding,) = json.loads(next(line for line in text.splitlines() if line.startswith("{")))["findings"]
    assert finding["name"] == "alone" and "srun --mpi=pmix" in finding["cure"]
    assert text.count("FAULT alone") == 1 and text.count("verdict: 1 fault") == 1
    text = run_job(slurm, tmp_path, f"{line} pg_mpi.train --run-dir run", "FAILED")
    assert text.count("the launcher started 2 processes, but MPI sees 1") == 1
    assert not (tmp_path / "run").exists()


def test_mpirun_of_another_mpi_is_refused(tmp_path, mpich):
    line = [mpich / "bin" / "mpirun", "-n", "2", sys.executable, "-m"]
    done = jobs.run([*line, "pg_mpi.doctor", "--strict", "--json", "--seconds", "0.2"], tmp_path)
    result = json.loads(done.stdout.splitlines()[-1])
    assert done.returncode == 1 and [finding["name"] for finding in result["findings"]] == ["alone"]
    text = result["findings"][0]["text"]
    assert "hydra_pmi_proxy" in text and "Open MPI" in text
    refused = jobs.run([*line, "pg_mpi.train", "--run-dir", "run"], tmp_path)
    assert refused.returncode == 2 and "the launcher started 2 processes, but MPI sees 1" in jobs.one_line(refused)


def test_reproducible_checkpoint_is_equal_with_another_mpi(tmp_path, mpich):
    """With --reproducible, Open MPI on 3 ranks and MPICH on 2 ranks write the same checkpoint."""
    flags = [*jobs.SMALL, *jobs.STEPS, "--reproducible", "--total-timesteps", "1500"]
    ours = jobs.command(3, "pg_mpi.train", "--run-dir", "ours", *flags, "--envs-per-rank", "2")
    theirs = [mpich / "bin" / "mpirun", "-n", "2", sys.executable, "-m", "pg_mpi.train", "--run-dir", "theirs"]
    library = {"MPI4PY_LIBMPI": str(mpich / "lib" / "libmpi.so.12")}
    for done in (jobs.run(ours, tmp_path), jobs.run([*theirs, *flags, "--envs-per-rank", "3"], tmp_path, **library)):
        assert done.returncode == 0, done.stderr
    assert "MPI: MPICH" in done.stdout
    assert jobs.newest(tmp_path, "ours")[1] == jobs.newest(tmp_path, "theirs")[1]


def test_script_starts_mpich_with_pmi2(slurm, tmp_path, mpich):
    """With MPICH the script chooses ``srun --mpi=pmi2``, and the ranks are one world."""
    library = {"MPI4PY_LIBMPI": str(mpich / "lib" / "libmpi.so.12")}
    job = submit(slurm, tmp_path, ["--nodes=2"], "--total-timesteps", "3000", **library)
    slurm.wait_for_state(job, "COMPLETED", 120)
    assert finished(tmp_path) and "2 ranks by srun --mpi=pmi2" in log(tmp_path), log(tmp_path)
    (start,) = starts(tmp_path)
    assert start["ranks"] == 2 and "MPICH" in start["mpi"]


def test_staged_job_starts_from_the_local_disk(slurm, tmp_path):
    """Python starts from each node's local disk and records the commit. The files are removed afterwards."""
    local = str(slurm.hosts.local)
    flags = ["--total-timesteps", "3000"]
    job = submit(slurm, tmp_path, ["--nodes=2"], *flags, PG_MPI_STAGE=local, PG_MPI_LAUNCHER="mpirun", DOCTOR="1")
    slurm.wait_for_state(job, "COMPLETED", 180)
    assert finished(tmp_path), log(tmp_path)
    (start,) = starts(tmp_path)
    assert start["ranks"] == 2 and start["command"][0].startswith(local) and start["commit"]
    assert f"{local}/pg_mpi-{job}-" in log(tmp_path)
    for host in slurm.hosts.names:
        assert "pg_mpi-" not in slurm.hosts.output(host, "ls", local), host
    assert not list(tmp_path.glob("*.tar"))


def test_failed_staging_ends_the_job(slurm, tmp_path):
    """The job ends with a message and an exit code before training."""
    job = submit(slurm, tmp_path, ["--nodes=2"], PG_MPI_STAGE="/proc/pg_mpi", PG_MPI_LAUNCHER="mpirun")
    slurm.wait_for_state(job, "FAILED", 90)
    assert "unset PG_MPI_STAGE" in log(tmp_path) and slurm.job(job)["ExitCode"] == "2:0"
    assert not (tmp_path / "run").exists()
