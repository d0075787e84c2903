"""The PBS scripts with SLURM's PBS commands. They are not OpenPBS, and do not prove that OpenPBS accepts the scripts.

SLURM's commands ignore ``-j`` and ``-N``, accept resources that do not exist, and set no PBS_NODEFILE; a file that bash
reads before each script creates it. Therefore test_scripts.py compares directives and resources with the OpenPBS
documentation, and test_hosts.py tests PBS_NODEFILE over ssh.
"""

import re
import subprocess

import jobs
import pytest
from hosts import wait_for
from submitted import ENVIRONMENT, SCRIPTS, SMALL, assert_equal_results, finished, log, starts, wait_for_updates

pytestmark = [pytest.mark.batch, pytest.mark.quick]


@pytest.fixture
def qsub(slurm, tmp_path):
    """Return a function that submits a script with ``qsub`` and returns the job's number."""
    mom = tmp_path / "mom.sh"  # in PBS a daemon creates the file before the script starts
    mom.write_text('[ -n "${PBS_NODEFILE:-}" ] || export PBS_NODEFILE=$(generate_pbs_nodefile)\n', encoding="utf-8")

    def submit(script, select, arguments, **variables):
        resources = f"select={select},walltime=00:05:00"
        environment = {**slurm.environment, "BASH_ENV": str(mom), **ENVIRONMENT, "ARGS": arguments, **variables}
        environment["PG_MPI_QSUB"] = f"-l {resources}"  # SLURM's qstat does not show the requested resources
        line = ["qsub", "-V", "-l", resources, str(SCRIPTS / script)]
        done = subprocess.run(line, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=30)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return submit


def trainer_arguments(*flags):
    """Return the trainer's arguments as one string for ARGS."""
    return " ".join(["--run-dir 'a run'", *SMALL, *flags])


def output(folder):
    """Return the output of all jobs in a folder."""
    return "".join(log(folder, path) for path in sorted(folder.glob("*.[oe][0-9]*")))


def test_chain_of_successors_gives_the_same_results(slurm, qsub, tmp_path):
    """A start that reaches its time limit submits the next one. The last one submits none."""
    flags = ["--total-timesteps", "72000"]  # more than two cores play in 6 s, at 12,000 a second
    first = qsub("train.pbs", "2:ncpus=1:mpiprocs=1", trainer_arguments(*flags, "--max-walltime 6"))
    wait_for(lambda: finished(tmp_path, "a run"), 360, lambda: output(tmp_path))
    wait_for(lambda: not slurm.run("squeue", "-h"), 30, "the last job to end")
    started = starts(tmp_path, "a run")
    assert len(started) >= 2 and all(start["ranks"] == 2 for start in started), output(tmp_path)
    numbers = [start["job"]["PBS_JOBID"] for start in started]
    assert numbers == [str(int(first) + n) for n in range(len(started))]
    assert output(tmp_path).count("the next start is") == len(started) - 1
    whole = tmp_path / "whole"
    line = jobs.command(2, "pg_mpi.train", "--run-dir", "a run", *SMALL, *flags)
    jobs.run(line, whole, limit=240, code=0)
    assert_equal_results(tmp_path, whole, run="a run")


def test_job_has_a_successor_after_usr1_but_not_after_qdel(slurm, qsub, tmp_path):
    job = qsub("train.pbs", "1:ncpus=1:mpiprocs=1", trainer_arguments())
    wait_for_updates(tmp_path, 1, "a run")
    slurm.run("scancel", "--batch", "--signal=USR1", job)  # as `qsig -s SIGUSR1`
    wait_for(lambda: len(starts(tmp_path, "a run")) == 2, 60, lambda: output(tmp_path))
    assert "asked to stop by a signal" in output(tmp_path)
    slurm.run("qdel", str(int(job) + 1))
    wait_for(lambda: not slurm.run("squeue", "-h"), 30, "the deleted job to end")
    assert not finished(tmp_path, "a run") and output(tmp_path).count("the next start is") == 1


def test_usage_error_has_no_successor(slurm, qsub, tmp_path):
    job = qsub("train.pbs", "1:ncpus=1:mpiprocs=1", "--gama 0.9")
    slurm.wait_for_state(job, "FAILED", 60)
    assert output(tmp_path).count("did you mean --gamma") == 1 and "next start" not in output(tmp_path)


def test_scaling_script_measures_each_number_of_ranks(slurm, qsub, tmp_path):
    arguments = " ".join(["--seconds 8 --warmup 1 --hidden 16", *jobs.STEPS])
    job = qsub("scaling.pbs", "2:ncpus=1:mpiprocs=1", arguments)
    slurm.wait_for_state(job, "COMPLETED", 120)
    assert re.search(r"ranks +steps/s.*\n +1 .*\n +2 ", output(tmp_path)), output(tmp_path)
