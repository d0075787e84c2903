"""What the commands here have in common: where a result comes from, the checks of their flags, and how they end."""

import shlex
import signal
import subprocess
import sys

from pg_mpi.cluster import launched, mpirun
from pg_mpi.config import train_parser
from pg_mpi.errors import UsageError
from pg_mpi.parse import nearest
from pg_mpi.record.run_folder import provenance
from scaling.machine import cpu_model

AGAIN = 75  # ended by a signal: the same command goes on


def facts(module, argv):
    """Where a result comes from: command, commit, time, versions, processor, usable hardware threads."""
    start = provenance(argv, None, None, None)
    return {
        "command": shlex.join(["python", *([] if module.endswith(".py") else ["-m"]), module, *argv]),
        **{name: start[name] for name in ("commit", "time", "versions")},
        "cpu": cpu_model(),
        "cores": mpirun.usable_threads(),
    }


def refuse_mpirun():
    """Raise ``UsageError`` as one of many processes."""
    if (launched.promised() or 1) > 1:
        raise UsageError("this command starts its own ranks: leave mpirun away and give --ranks")


def check_flags(words, ours, refused):
    """Raise ``UsageError`` unless each flag of ``words``, which the parser ``ours`` left over, is one of training.

    ``refused``: names of the settings of training that make no sense here.
    """
    known, theirs = ([flag for a in p._actions for flag in a.option_strings] for p in (ours, train_parser()))
    for flag in (word.split("=", 1)[0] for word in words if word.startswith("--")):
        if flag not in theirs:
            raise UsageError(f"unknown argument {flag}{nearest(flag, known + theirs)}: see --help")
        if flag[2:].replace("-", "_") in refused:
            raise UsageError(f"{flag} means nothing here: each run has its own, see --help")


def start(ranks, *words, codes=(0,)):
    """Run a module on this many ranks; its standard output. Raises ``RuntimeError`` for any other exit code."""
    command = [*mpirun.mpirun_command(ranks), sys.executable, "-m", *words]
    print("$", " ".join(["mpirun", "-n", str(ranks), "python", "-m", *words]), file=sys.stderr, flush=True)
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    if done.returncode not in codes:
        raise RuntimeError(f"exit code {done.returncode} of {' '.join(words[:3])} ...")
    return done.stdout


def _stop(number, frame):
    raise SystemExit(AGAIN)


def run(main):
    """Run a command's ``main(argv)`` and end the process; a ``UsageError`` is one line and exit code 2.

    A signal ends it in order, with its job: what was measured is kept, and the same command goes on.
    """
    mpirun.ensure_home()
    for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, _stop)
    try:
        code = main(sys.argv[1:])
    except UsageError as error:
        print(f"pg_mpi: error: {error}", file=sys.stderr)
        code = 2
    except RuntimeError as error:
        print(f"pg_mpi: error: {error}", file=sys.stderr)
        code = 1
    except KeyboardInterrupt:
        code = 128 + signal.SIGINT
    sys.exit(code)
