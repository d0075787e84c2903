"""The PBS scripts, through SLURM's PBS commands. This is not OpenPBS, and does not prove that OpenPBS takes them.

Those commands ignore ``-j`` and ``-N``, take resources that do not exist, and set no PBS_NODEFILE: here a file that
each script's bash reads first makes it, as PBS would. So test_scripts.py holds every directive and every resource
against a list of what OpenPBS documents, and test_hosts.py takes the way through PBS_NODEFILE alone, over ssh.
"""

import re
import subprocess

import jobs
import pytest
from hosts import wait_for
from submitted import PLACE, SCRIPTS, SMALL, finished, log, same_end, starts, until_it_trains

pytestmark = [pytest.mark.batch, pytest.mark.quick]


@pytest.fixture
def qsub(slurm, tmp_path):
    """Submit a script of ours with ``qsub``: the job's number."""
    mom = tmp_path / "mom.sh"  # PBS's own daemon on a node makes this file before a script begins
    mom.write_text('[ -n "${PBS_NODEFILE:-}" ] || export PBS_NODEFILE=$(generate_pbs_nodefile)\n', encoding="utf-8")

    def submit(script, select, arguments, **told):
        asked = f"select={select},walltime=00:05:00"
        environment = {**slurm.environment, "BASH_ENV": str(mom), **PLACE, "ARGS": arguments, **told}
        environment["PG_MPI_QSUB"] = f"-l {asked}"  # for SLURM's qstat does not tell what was asked for
        line = ["qsub", "-V", "-l", asked, str(SCRIPTS / script)]
        done = subprocess.run(line, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=30)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return submit


def words(*flags):
    """The trainer's arguments as one text for ARGS."""
    return " ".join(["--run-dir 'a run'", *SMALL, *flags])


def output(folder):
    """What all the jobs of a folder have printed."""
    return "".join(log(folder, path) for path in sorted(folder.glob("*.[oe][0-9]*")))


def test_a_chain_of_successors_ends_with_the_same_bits(slurm, qsub, tmp_path):
    """A start that is out of time submits the next one, which begins when it has ended; the last one submits none."""
    flags = ["--total-timesteps", "72000"]  # two cores play no more than 12,000 a second: one start of 6 s is too short
    first = qsub("train.pbs", "2:ncpus=1:mpiprocs=1", words(*flags, "--max-walltime 6"))
    wait_for(lambda: finished(tmp_path, "a run"), 360, lambda: output(tmp_path))
    wait_for(lambda: not slurm.ask("squeue", "-h"), 30, "the last job to end")
    told = starts(tmp_path, "a run")
    assert len(told) >= 2 and all(start["ranks"] == 2 for start in told), output(tmp_path)
    numbers = [start["job"]["PBS_JOBID"] for start in told]
    assert numbers == [str(int(first) + n) for n in range(len(told))]
    assert output(tmp_path).count("the next start is") == len(told) - 1
    whole = tmp_path / "whole"
    whole.mkdir()
    line = jobs.command(2, "pg_mpi.train", "--run-dir", "a run", *SMALL, *flags)
    assert jobs.run(line, whole, limit=240).returncode == 0
    same_end(tmp_path, whole, run="a run")


def test_a_stop_by_usr1_has_a_successor_and_a_deleted_job_has_none(slurm, qsub, tmp_path):
    job = qsub("train.pbs", "1:ncpus=1:mpiprocs=1", words())
    until_it_trains(tmp_path, 1, "a run")
    slurm.ask("scancel", "--batch", "--signal=USR1", job)  # what `qsig -s SIGUSR1` sends
    wait_for(lambda: len(starts(tmp_path, "a run")) == 2, 60, lambda: output(tmp_path))
    assert "asked to stop by a signal" in output(tmp_path)
    slurm.ask("qdel", str(int(job) + 1))
    wait_for(lambda: not slurm.ask("squeue", "-h"), 30, "the deleted job to end")
    assert not finished(tmp_path, "a run") and output(tmp_path).count("the next start is") == 1


def test_wrong_usage_has_no_successor(slurm, qsub, tmp_path):
    job = qsub("train.pbs", "1:ncpus=1:mpiprocs=1", "--gama 0.9")
    slurm.until(job, "FAILED", 60)
    assert output(tmp_path).count("did you mean --gamma") == 1 and "next start" not in output(tmp_path)


def test_scaling(slurm, qsub, tmp_path):
    arguments = " ".join(["--seconds 8 --warmup 1 --hidden 16", *jobs.STEPS])
    job = qsub("scaling.pbs", "2:ncpus=1:mpiprocs=1", arguments)
    slurm.until(job, "COMPLETED", 120)
    assert re.search(r"ranks +steps/s.*\n +1 .*\n +2 ", output(tmp_path)), output(tmp_path)
