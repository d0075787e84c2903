"""The doctor under a real mpirun: sane launches, and launches made wrong on purpose."""

import json
import os
import sys

import jobs

from pg_mpi.mpi.launch import mpirun

QUICK = ["--seconds", "0.2", "--json", "--strict"]


def examine(line, cwd, **environment):
    """(result of ``--json``, exit code, output) of a doctor's command line."""
    done = jobs.run([*line, *QUICK], cwd, **environment)
    return json.loads(done.stdout.splitlines()[-1]), done.returncode, done.stdout + done.stderr


def faults(result):
    """Names of the faults, but for a machine that is busy with something else."""
    return {finding["name"] for finding in result["findings"] if finding["fault"]} - {"busy"}


def by_mpirun(ranks, *before):
    """A doctor's command line on so many ranks, not bound; ``before``: a program that starts each one."""
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    start = [mpirun.find_mpirun(), *root, "--map-by", ":OVERSUBSCRIBE", "--bind-to", "none", "-n", str(ranks)]
    return [*start, *before, sys.executable, "-m", "pg_mpi.doctor"]


def test_sane(tmp_path):
    ranks = min(2, mpirun.usable_cores())
    result, code, output = examine(jobs.command(ranks, "pg_mpi.doctor"), tmp_path)
    assert faults(result) == set(), output
    assert code == bool(result["findings"])
    assert len(result["ranks"]) == ranks
    for rank in result["ranks"]:
        assert rank["emulator"]["sps"] > 500 and rank["emulator"]["rom"] == "pong.bin"
        assert rank["blas"] and all(pool["threads"] == 1 for pool in rank["blas"])
        assert len(rank["mpi"]["libraries"]) == 1 and os.path.exists(rank["mpi"]["libraries"][0])
        assert rank["sits_on"] in rank["threads"]
        assert 0.05 < rank["import_s"] < 60
    if ranks == 2:
        times = list(result["allreduce_s"].values())
        assert len(times) > 1 and min(times) > 0


def test_two_ranks_on_one_core(tmp_path):
    core = str(min(os.sched_getaffinity(0)))
    result, code, output = examine(by_mpirun(2, "taskset", "-c", core), tmp_path)
    expected = "shared" if os.cpu_count() > 1 else "oversubscribed"
    assert faults(result) == {expected} and code == 1, output
    assert sum(rank["emulator"]["cpu_share"] for rank in result["ranks"]) < 1.3


def test_more_ranks_than_hardware_threads(tmp_path):
    result, code, output = examine(by_mpirun(os.cpu_count() + 1), tmp_path)
    assert faults(result) == {"oversubscribed"} and code == 1, output


def test_blas_threads_in_each_of_two_ranks(tmp_path):
    threads = str(os.cpu_count())
    result, code, output = examine(by_mpirun(2), tmp_path, OMP_NUM_THREADS=threads, OPENBLAS_NUM_THREADS=threads)
    assert "threads" in faults(result) and code == 1, output
    assert f"openblas runs {threads} threads in rank 0" in output and "export OMP_NUM_THREADS=1" in output


def test_a_world_smaller_than_promised_speaks_once(tmp_path):
    """A launcher's promise stands in for srun without PMI: what MPI really gives is a world of one."""
    line = [sys.executable, "-m", "pg_mpi.doctor"]
    result, code, output = examine(line, tmp_path, SLURM_STEP_NUM_TASKS="4", SLURM_PROCID="0")
    assert faults(result) == {"alone"} and code == 1, output
    done = jobs.run([*line, *QUICK], tmp_path, SLURM_STEP_NUM_TASKS="4", SLURM_PROCID="3")
    assert done.returncode == 1 and not done.stdout


def test_without_strict_a_fault_is_told_and_exit_is_0(tmp_path):
    done = jobs.run([*by_mpirun(os.cpu_count() + 1), "--seconds", "0.1"], tmp_path)
    assert done.returncode == 0 and "FAULT oversubscribed" in done.stdout and "cure: " in done.stdout


def test_bad_input(tmp_path):
    done = jobs.run([*jobs.command(2, "pg_mpi.doctor"), "--secnds", "1"], tmp_path)
    assert done.returncode == 2 and "did you mean --seconds" in jobs.one_line(done)
