"""Start an MPI job in which Ctrl-C means "checkpoint and stop".

    python -m pg_mpi.mpi.launch [-n RANKS] [--launcher WORDS] [--again COMMAND] [--] MODULE [ARG ...]

On INT and TERM, Open MPI's mpirun kills the ranks 0.24 s later, too soon for a checkpoint, but it forwards USR1
to them. mpirun therefore runs in its own session, where a terminal's Ctrl-C does not reach it. This launcher
stays in the terminal's foreground and translates the signals that it receives:

    ==================  =====================================================================
    received            sent to mpirun
    ==================  =====================================================================
    HUP, INT, TERM      1st and 2nd: USR1, so the ranks checkpoint and stop.
                        3rd: TERM, so they are killed now. From the 4th: KILL.
    USR1                USR1, each time
    the launcher ends   USR1, from the kernel (Linux only)
    ==================  =====================================================================

If the link to another host is cut, the ranks on both sides end by their watchdogs, but Open MPI's mpirun waits for
that host without limit. The launcher kills it a minute after its last rank on this host has ended (Linux only), but not
with ``--elastic``, where ranks on other hosts continue without those of this host.

A signal in the first second or so, before the ranks handle signals, ends the job without a checkpoint: USR1
kills a program without a handler. When mpirun is killed, the launcher kills its ranks (Open MPI's would run
until their next MPI call). Tested with Open MPI 5.0, MPICH 4.2 and 5.0, and Intel MPI 2021.18.

The exit code is the job's own, or 128 + N for an mpirun killed by signal N. With ``--again``, code 75 without
an error becomes 0, and a line names the command that resumes from the checkpoint. Standard output passes
through, and standard error too, but for some ``notices``; standard input is empty, because a job outside the
terminal's session must not read it.

Imports only the standard library, because it runs before anything is installed.
"""

import argparse
import contextlib
import ctypes
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, TextIO, cast

from pg_mpi.config.errors import RUN_AGAIN, RunError, UsageError
from pg_mpi.mpi.launch import mpirun
from pg_mpi.mpi.launch.kernel_files import content
from pg_mpi.mpi.launch.notices import StreamCopy

#: Signals sent for the 1st, 2nd, ... request to stop, and the number of the first request that kills.
ANSWERS = (signal.SIGUSR1, signal.SIGUSR1, signal.SIGTERM, signal.SIGKILL)
KILLS = 3
CHECK_EVERY = 5.0  # seconds between two checks for running ranks
GONE = 60.0  # seconds for mpirun to forward the ranks' output and end after them
LAST_WORDS = 5.0  # seconds for the end of the ranks' standard error
PR_SET_PDEATHSIG = 1  # from linux/prctl.h


def kill_session(session: int) -> None:
    """Kill the processes of mpirun's session that remain on this machine. Ranks never leave the session."""
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # ended meanwhile, or another user's
            if os.getsid(int(entry.name)) == session:
                os.kill(int(entry.name), signal.SIGKILL)


def has_ranks(pid: int) -> bool:
    """Whether ranks of the mpirun ``pid`` run on this host: its child processes that run this Python."""
    children = content(f"/proc/{pid}/task/{pid}/children").split()
    python = os.fsencode(sys.executable).decode(errors="replace")
    return any(content(f"/proc/{child}/cmdline").split("\0")[0] == python for child in children)


def run(command: list[str], needs_local_ranks: bool = True, again: str | None = None) -> int:
    """Run mpirun in its own session, translate signals as in the table above, and return the exit code.

    ``needs_local_ranks``: kill mpirun if all ranks on this host have ended long ago; ``again``: as ``--again``.

    Signals stay blocked, and this function waits for them one by one. No handler interrupts it, and a signal
    that arrives while mpirun starts is not lost.
    """
    stop = {signal.SIGHUP, signal.SIGINT, signal.SIGTERM}
    stop -= {number for number in stop if signal.getsignal(number) is signal.SIG_IGN}  # as under nohup
    awaited = stop | {signal.SIGUSR1, signal.SIGCHLD}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
    prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None

    def in_child() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if prctl:
            prctl(PR_SET_PDEATHSIG, int(signal.SIGUSR1))

    job = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True, preexec_fn=in_child
    )
    errors = StreamCopy(cast(IO[bytes], job.stderr), sys.stderr.buffer)
    asked, ranks_seen = 0, math.inf
    while job.poll() is None:
        received = _next_signal(awaited, CHECK_EVERY)
        if needs_local_ranks and has_ranks(job.pid):
            ranks_seen = time.monotonic()
        if time.monotonic() - ranks_seen > GONE:
            _say("pg_mpi: all ranks on this host have ended, but mpirun has not: killing it")
            job.kill()
            job.wait()
        elif received in stop:
            job.send_signal(ANSWERS[min(asked, len(ANSWERS) - 1)])
            if not asked:
                _say("asked the ranks to stop; Ctrl-C twice more kills the job")
            asked += 1
        elif received == signal.SIGUSR1:
            job.send_signal(signal.SIGUSR1)
    if job.returncode:
        kill_session(job.pid)
    errors.join(LAST_WORDS)
    if job.returncode < 0:
        return 128 - job.returncode
    if job.returncode == 0 and asked >= KILLS:
        return 128 + signal.SIGTERM  # a killed mpirun of MPICH 4 exits with 0
    if job.returncode == RUN_AGAIN and again and not errors.failed:
        _say(f"stopped with a checkpoint; run again to resume: {again}", sys.stdout)
        return 0
    return job.returncode


def _say(line: str, stream: TextIO | None = None) -> None:
    """Print to standard error or ``stream``, whose reader may have ended with the terminal or by the same Ctrl-C."""
    with contextlib.suppress(OSError):
        print(line, file=stream or sys.stderr, flush=True)


def _next_signal(awaited: set[signal.Signals], seconds: float) -> int | None:
    """Wait for a blocked signal; None after ``seconds``, and on macOS sooner, which has no ``sigtimedwait``."""
    if sys.platform != "darwin":
        came = signal.sigtimedwait(awaited, seconds)
        return came.si_signo if came else None
    time.sleep(min(seconds, 0.1))
    pending = signal.sigpending() & awaited
    return signal.sigwait(pending) if pending else None


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m pg_mpi.mpi.launch",
        description="Start a module on MPI ranks by mpirun: python -m pg_mpi.mpi.launch -n 4 pg_mpi.train. "
        "Ctrl-C and signals end it with a checkpoint.",
        allow_abbrev=False,
    )
    parser.add_argument("-n", dest="ranks", type=int, help="MPI ranks (default: one per usable core)")
    parser.add_argument("--launcher", default="mpirun", help='instead of mpirun, such as "srun --mpi=pmix"')
    parser.add_argument("--again", metavar="COMMAND", help="count a stop with a checkpoint as success and name COMMAND")
    parser.add_argument("--system-mpi", action="store_true", help="check whether the machine's own MPI works here")
    parser.add_argument("job", nargs=argparse.REMAINDER, metavar="MODULE ...", help="the module and its flags")
    options = parser.parse_args(arguments)
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115 until the end; closed, as by 2>&-
    mpirun.set_environment()
    if options.system_mpi:
        return 0 if mpirun.system_mpi() else 1
    job = options.job[1:] if options.job[:1] == ["--"] else options.job
    ranks = mpirun.usable_cores() if options.ranks is None else options.ranks
    if not job or ranks < 1:
        parser.error("name a module to run, and at least one rank")
    try:
        launcher = mpirun.launcher_for(job, options.launcher)
        command = [*mpirun.start_command(launcher, ranks), sys.executable, "-m", *job]
        # ranks that use MPI end together; those of jobs/unpack.py do not
        together = job[0].startswith("pg_mpi.") and not mpirun.is_elastic(job)
        return run(command, together, options.again)
    except (UsageError, RunError) as error:
        _say(f"pg_mpi: error: {error}")
        return error.code
    except KeyboardInterrupt:  # before mpirun has started
        return 128 + signal.SIGINT
