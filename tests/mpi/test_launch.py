"""The launcher: the effect of signals on its ranks, and its exit codes."""

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

from pg_mpi.mpi.launch import mpirun

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


class Job:
    """The launcher in its own process group, as a shell starts it.

    ``unread_errors``: its standard error is a pipe whose reader has ended, as ``tee`` at a Ctrl-C.
    """

    def __init__(self, folder: Path, script: str, *options: str, ranks: int = 2, unread_errors: bool = False) -> None:
        (folder / "rank_script.py").write_text(script)
        command = [sys.executable, "-m", "pg_mpi.mpi.launch", "-n", str(ranks), *options]
        self.ranks, self.output = ranks, folder / "output"
        with self.output.open("wb") as output, contextlib.ExitStack() as stack:
            errors = stack.enter_context(unread_pipe()) if unread_errors else subprocess.STDOUT
            self.launcher = subprocess.Popen(
                [*command, "--", "rank_script", "--seed", "1"],
                cwd=folder,
                env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": ""},  # as users run it
                stdout=output,
                stderr=errors,
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


@contextlib.contextmanager
def unread_pipe() -> Iterator[int]:
    """The writing end of a pipe that nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


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


def test_interrupt_stops_the_ranks_when_nobody_reads_standard_error(tmp_path: Path) -> None:
    with job(tmp_path, STOPPING_RANK, unread_errors=True) as run:
        run.interrupt()
        assert run.code() == 75
        assert run.output.read_text().count("saved\n") == 2


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_code_of_a_checkpoint_remains_when_nobody_reads_the_output(tmp_path: Path, unbuffered: str) -> None:
    (tmp_path / "exits.py").write_text("import sys; sys.exit(75)")
    line = [sys.executable, "-m", "pg_mpi.mpi.launch", "-n", "1", "--again", "make train", "exits"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": unbuffered}
    with unread_pipe() as output:
        ended = subprocess.run(
            line, cwd=tmp_path, env=environment, stdout=output, stderr=subprocess.PIPE, timeout=LIMIT
        )
    assert (ended.returncode, ended.stderr) == (0, b"")


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


@pytest.mark.parametrize("module, code", [("jobs.unpack", 0), ("pg_mpi.train", 137)])
def test_launcher_waits_for_other_hosts_of_a_program_without_mpi(tmp_path: Path, module: str, code: int) -> None:
    """Ranks that use MPI end together, so an mpirun without any hangs. Files may be unpacked more slowly elsewhere."""
    (tmp_path / "mpirun.sh").write_text(f"{sys.executable} -c 'import time; time.sleep(1)'; sleep 5\n")
    patch = "from pg_mpi.mpi.launch import launcher as l; l.GONE, l.CHECK_EVERY = 2, 0.5; raise SystemExit(l.main())"
    line = [sys.executable, "-c", patch, "--launcher", f"bash {tmp_path}/mpirun.sh", "-n", "2", "--", module]
    assert jobs.run(line, tmp_path, LIMIT).returncode == code


@pytest.mark.parametrize("code", [0, 1, 2, 75])
def test_exit_code_is_that_of_the_job(tmp_path: Path, code: int) -> None:
    """Also 75 if it comes from an error, such as a full disk."""
    error = "sys.stderr.write('pg_mpi: error: no space\\n')" if code == 75 else ""
    program = f"import sys\nfrom mpi4py import MPI\n{error}\nMPI.Finalize()\nraise SystemExit({code})\n"
    (tmp_path / "exits.py").write_text(program)
    command = [sys.executable, "-m", "pg_mpi.mpi.launch", "-n", "2", "--again", "x", "exits"]
    ended = jobs.run(command, tmp_path, LIMIT)
    assert ended.returncode == code and "run again to resume" not in ended.stdout
    if code == 2:
        assert ended.stderr == ""
    if code == 1 and mpirun.flavour(mpirun.find_mpirun()).name == "Open MPI":
        assert "Exit code:    1" in ended.stderr, "only the ranks' own codes are left out"
