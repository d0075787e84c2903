"""What the commands here have in common: where a result comes from, the checks of their flags, and how they end."""

import json
import shlex
import signal
import sys
from pathlib import Path

from pg_mpi.config.command_line import train_parser
from pg_mpi.config.errors import RunError, UsageError, one_line
from pg_mpi.config.parsers import nearest
from pg_mpi.files.csv_table import make_folder
from pg_mpi.files.run_folder import provenance
from pg_mpi.mpi.launch import launch_env, mpirun
from scaling.machine import cpu_model
from scaling.measure import timed_run

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


def claim(folder, name, module, argv):
    """Make the folder of ``--out`` for a command that writes ``name`` there and measures anew each time.

    Raises ``UsageError`` where ``name`` is another command's: what was measured is not lost by a slip.
    """
    make_folder(folder)
    path = Path(folder, name)
    if path.is_dir():
        raise UsageError(f"{path} is a folder: give another --out")
    ours = _what([module, *argv])
    if path.exists() and (theirs := _command_of(path)) != ours:
        raise UsageError(f"{path} holds the result of another command ({theirs or 'unknown'}): give another --out")


def _command_of(path):
    """The command that wrote a result, or nothing."""
    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".json":
            line = json.loads(text)["command"]
        else:
            line = next(line for line in text.splitlines() if line.startswith("# command: ")).partition(": ")[2]
        return _what(shlex.split(line.removeprefix("python ").removeprefix("-m ")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, StopIteration):
        return ""


def _what(words):
    """A command apart from where it writes and how it tells."""
    kept, skip = [], False
    for word in words:
        if not skip and word != "--json" and word.split("=", 1)[0] != "--out":
            kept.append(word)
        skip = not skip and word == "--out"
    return shlex.join(kept)


def refuse_mpirun():
    """Raise ``UsageError`` as one of many processes."""
    if (launch_env.promised() or 1) > 1:
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
    code, output, _ = timed_run.run(command, told=True)
    if code not in codes:
        raise RuntimeError(f"exit code {code} of {' '.join(words[:3])} ...")
    return output


def run(main, goes_on=False):
    """Run a command's ``main(argv)`` and end the process; a ``UsageError`` is one line and exit code 2.

    A signal ends it in order, with its job. ``goes_on``: what was measured is kept then, and the same command goes on.
    """

    def stop(number, frame):
        raise SystemExit(AGAIN if goes_on else 128 + number)

    for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, stop)
    try:
        mpirun.ensure_home()
        code = main(sys.argv[1:])
    except UsageError as error:
        print(f"pg_mpi: error: {error}", file=sys.stderr)
        code = 2
    except (RuntimeError, RunError) as error:
        print(f"pg_mpi: error: {error}", file=sys.stderr)
        code = 1
    except OSError as error:
        print(f"pg_mpi: error: {one_line(error)}", file=sys.stderr)
        code = 1
    except KeyboardInterrupt:
        code = 128 + signal.SIGINT
    sys.exit(code)
