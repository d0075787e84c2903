"""The doctor under mpirun: a sane launch, and launches with a fault."""

import json
import os
import sys

import jobs

from pg_mpi.doctor import __main__ as doctor
from pg_mpi.mpi.launch import mpirun

QUICK = ["--seconds", "0.2", "--json", "--strict"]


def diagnose(line, cwd, **environment):
    """Run a doctor's command line: (result of ``--json``, exit code, output)."""
    process = jobs.run([*line, *QUICK], cwd, **environment)
    return json.loads(process.stdout.splitlines()[-1]), process.returncode, process.stdout + process.stderr


def faults(result):
    """Return the names of the faults, except those that other processes of the machine cause."""
    return {finding["name"] for finding in result["findings"] if finding["fault"]} - {"busy", "network"}


def unbound(ranks, *prefix):
    """Return the doctor's command line on unbound ranks. ``prefix``: a program that starts each rank."""
    options = ["--map-by", ":OVERSUBSCRIBE", "--bind-to", "none"] if jobs.MPI.name == "Open MPI" else []
    if options and os.geteuid() == 0:
        options.append("--allow-run-as-root")
    start = [mpirun.find_mpirun(), *options, "-n", str(ranks)]
    return [*start, *prefix, sys.executable, "-m", "pg_mpi.doctor"]


def test_sane_launch_has_no_faults(tmp_path):
    ranks = min(2, mpirun.usable_cores())
    result, code, output = diagnose(jobs.command(ranks, "pg_mpi.doctor"), tmp_path)
    assert faults(result) == set(), output
    assert code == any(finding["fault"] for finding in result["findings"])
    assert len(result["ranks"]) == ranks
    for rank in result["ranks"]:
        assert rank["emulator"]["sps"] > 0 and rank["emulator"]["rom"] == "pong.bin"
        assert rank["blas"] and all(pool["threads"] == 1 for pool in rank["blas"])
        assert len(rank["mpi"]["libraries"]) == 1 and os.path.exists(rank["mpi"]["libraries"][0])
        assert rank["sits_on"] in rank["threads"]
        assert 0.05 < rank["import_s"] < 60
    if ranks == 2:
        times = list(result["allreduce_s"].values())
        assert len(times) > 1 and min(times) > 0
    assert os.listdir(tmp_path) == []
    speed = result["memory_gb_s"]
    assert 0.5 < speed["together"] < 1000 and 0.5 < speed["alone"] < 1000
    assert f"memory        {speed['alone']:.1f} GB/s for a rank alone" in output


def test_two_ranks_on_one_core_are_a_fault(tmp_path):
    core = str(min(os.sched_getaffinity(0)))
    result, code, output = diagnose(unbound(2, "taskset", "-c", core), tmp_path)
    expected = "shared" if os.cpu_count() > 1 else "oversubscribed"
    assert faults(result) == {expected} and code == 1, output
    assert sum(rank["emulator"]["cpu_share"] for rank in result["ranks"]) < 1.3


def test_more_ranks_than_hardware_threads_are_a_fault(tmp_path, capsys):
    """The exit code is 1 with ``--strict``, as everywhere here, and 0 without it."""
    result, code, output = diagnose(unbound(os.cpu_count() + 1), tmp_path)
    assert faults(result) == {"oversubscribed"} and code == 1, output
    args = doctor.parser().parse([])
    result["allreduce_s"] = {int(size): seconds for size, seconds in result["allreduce_s"].items()}
    assert doctor._print_result(args, result["ranks"], result) == 0
    printed = capsys.readouterr().out
    assert "FAULT oversubscribed" in printed and "cure: " in printed


def test_too_many_blas_threads_are_a_fault(tmp_path):
    threads = str(os.cpu_count())
    result, code, output = diagnose(unbound(2), tmp_path, OMP_NUM_THREADS=threads, OPENBLAS_NUM_THREADS=threads)
    assert "threads" in faults(result) and code == 1, output
    assert f"openblas runs {threads} threads in rank 0" in output and "export OMP_NUM_THREADS=1" in output


def test_singleton_world_is_reported_by_the_first_task(tmp_path):
    """The environment is that of 4 tasks of srun without PMI: MPI has one rank. Only the first task prints."""
    line = [sys.executable, "-m", "pg_mpi.doctor"]
    result, code, output = diagnose(line, tmp_path, SLURM_STEP_NUM_TASKS="4", SLURM_PROCID="0")
    assert faults(result) == {"alone"} and code == 1, output
    process = jobs.run([*line, *QUICK], tmp_path, SLURM_STEP_NUM_TASKS="4", SLURM_PROCID="3")
    assert process.returncode == 1 and not process.stdout


def test_bad_input_is_refused(tmp_path):
    process = jobs.run([*jobs.command(2, "pg_mpi.doctor"), "--secnds", "1"], tmp_path)
    assert process.returncode == 2 and "did you mean --seconds" in jobs.one_line(process)
