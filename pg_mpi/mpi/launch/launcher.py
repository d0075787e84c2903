"""Start an MPI job in which Ctrl-C means "checkpoint and stop".

    python -m pg_mpi.mpi.launch [-n RANKS] [--launcher WORDS] [--again COMMAND] [--] MODULE [ARG ...]

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

Where the link to another host is cut, the ranks on both sides end by their watchdogs, but Open MPI's mpirun waits for
that host for ever. So one that had ranks on this host, all of them gone, is killed a minute later (Linux only).

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
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from pg_mpi.config.errors import UsageError
from pg_mpi.mpi.launch.mpirun import ensure_home, launcher_for, start_command, system_mpi, usable_threads

RUN_AGAIN = 75
#: What the 1st, 2nd ... request to stop becomes, and which of them is the first that kills.
ANSWERS = (signal.SIGUSR1, signal.SIGUSR1, signal.SIGTERM, signal.SIGKILL)
KILLS = 3
LOOKS = 5.0  # seconds between two looks whether the ranks are still there
GONE = 60.0  # seconds that mpirun has to end after them, and to hand on what they said
PR_SET_PDEATHSIG = 1  # from linux/prctl.h


def kill_session(session: int) -> None:
    """Kill what a dead mpirun left behind on this machine. Its ranks never leave its session."""
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # gone by now, or another user's
            if os.getsid(int(entry.name)) == session:
                os.kill(int(entry.name), signal.SIGKILL)


class LocalRanks:
    """The ranks that an mpirun started on this host, as its children that run this Python."""

    def __init__(self, mpirun: int) -> None:
        self._mpirun, self._seen, self._gone_at = mpirun, False, 0.0

    def long_gone(self) -> bool:
        """True once there were some, and there have been none for a while. To be asked now and then."""
        there = any(self._runs_python(child) for child in self._children())
        self._seen = self._seen or there
        if there or not self._seen:
            self._gone_at = time.monotonic()
        return time.monotonic() - self._gone_at > GONE

    def _children(self) -> list[str]:
        with contextlib.suppress(OSError):
            return Path(f"/proc/{self._mpirun}/task/{self._mpirun}/children").read_text().split()
        return []

    @staticmethod
    def _runs_python(child: str) -> bool:
        with contextlib.suppress(OSError):
            return Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")[0] == os.fsencode(sys.executable)
        return False


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
    asked, ranks = 0, LocalRanks(job.pid)
    while job.poll() is None:
        came = signal.sigtimedwait(awaited, LOOKS)
        received = came.si_signo if came else None
        if ranks.long_gone():
            print("pg_mpi: its ranks on this host have ended and mpirun has not: it is killed", file=sys.stderr)
            job.kill()
            job.wait()
        elif received in stop:
            job.send_signal(ANSWERS[min(asked, len(ANSWERS) - 1)])
            if not asked:
                print("stopping at the next checkpoint; Ctrl-C twice more kills the job", file=sys.stderr)
            asked += 1
        elif received == signal.SIGUSR1:
            job.send_signal(signal.SIGUSR1)
    if job.returncode:
        kill_session(job.pid)
    if job.returncode < 0:
        return 128 - job.returncode
    if job.returncode == 0 and asked >= KILLS:
        return 128 + signal.SIGTERM  # MPICH 4's mpirun calls being killed a success
    return job.returncode


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m pg_mpi.mpi.launch", allow_abbrev=False)
    parser.add_argument("-n", dest="ranks", type=int, help="MPI ranks (default: one per usable hardware thread)")
    parser.add_argument("--launcher", default="mpirun", help='another than mpirun, as "srun --mpi=pmix"')
    parser.add_argument("--again", metavar="COMMAND", help="count exit code 75 as success and name COMMAND")
    parser.add_argument("--system-mpi", action="store_true", help="does the machine's own MPI work here?")
    parser.add_argument("job", nargs=argparse.REMAINDER, metavar="MODULE ...", help="what to run")
    options = parser.parse_args(arguments)
    ensure_home()
    if options.system_mpi:
        return 0 if system_mpi() else 1
    job = options.job[1:] if options.job[:1] == ["--"] else options.job
    ranks = usable_threads() if options.ranks is None else options.ranks
    if not job or ranks < 1:
        parser.error("name a module to run, and at least one rank")
    try:
        launcher = launcher_for(job, options.launcher)
        code = run([*start_command(launcher, ranks), sys.executable, "-m", *job])
    except UsageError as error:
        print(f"pg_mpi: error: {error}", file=sys.stderr)
        return 2
    if code == RUN_AGAIN and options.again:
        print(f"stopped with a checkpoint; to go on: {options.again}")
        return 0
    return code
