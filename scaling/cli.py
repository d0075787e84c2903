"""Shared parts of the commands: command lines, provenance, results, exit codes."""

import json
import os
import signal
import sys
from pathlib import Path

from pg_mpi.config.command_line import flag, parse_train, refuse
from pg_mpi.config.errors import RUN_AGAIN, RunError, UsageError, one_line, reportable
from pg_mpi.config.parsers import Parser, integer, nearest, real
from pg_mpi.config.settings import FIELDS
from pg_mpi.files.atomic_file import write_json
from pg_mpi.files.csv_table import make_folder, write_csv
from pg_mpi.files.figure_file import picture
from pg_mpi.files.provenance import command_line, facts_of
from pg_mpi.mpi.launch import launch_variables, mpirun

positive = real(0, open_low=True)


def numbers(parse):
    """A parser of numbers such as ``1,2,4``, each by ``parse``: their sorted list, without duplicates."""

    def checked(text):
        try:
            return sorted({parse(word) for word in text.split(",")})
        except ValueError as wanted:
            raise ValueError(f"{wanted}, or several such as 1,2,4") from None

    return checked


counts, speeds = numbers(integer(1, 10**6)), numbers(positive)  # numbers of ranks, steps/s


def parser(module, description, epilog=None):
    """Create the argument parser of a command."""
    return Parser(prog=f"python -m {module}", description=description, epilog=epilog)


def add_option(p, flag, metavar, parse, text, default=None):
    """Add a flag whose value ``parse`` checks, the default's too."""
    p.add_argument(flag, metavar=metavar, type=parse, default=None if default is None else str(default), help=text)


def add_shared(p, out, folder=None, preset=False):
    """Add ``--preset`` (if wanted), ``--out`` with the help ``out`` and the default ``folder``, and ``--json``.

    Returns ``p``.
    """
    if preset:
        add_option(p, "--preset", "P", None, "preset of the training", "default")
    add_option(p, "--out", "FOLDER", None, out, folder)
    p.add_argument("--json", action="store_true", help="also print the result as a last line of JSON")
    return p


def parse_training(p, argv, refused):
    """Parse a command line with the flags of ``p`` and of ``pg_mpi.train``: (args, training flags).

    ``refused``: names of training settings that do not apply to the command. Raises ``UsageError``.
    """
    args, rest = p.parse_known_args(argv)
    check_flags(rest, p, refused)
    refuse(parse_train(["--preset", args.preset, *rest])[0], refused - {"seed"})
    return args, ["--preset", args.preset, *rest]


def check_flags(words, ours, refused):
    """Raise ``UsageError`` for a flag in ``words``, left over by the parser ``ours``, that is not a training flag.

    ``refused``: names of training settings that do not apply to the command.
    """
    known = [text for action in ours._actions for text in action.option_strings]
    settings = {flag(name): name for name in FIELDS}
    for given in (word.split("=", 1)[0] for word in words if word.startswith("--")):
        if given not in settings:
            raise UsageError(f"unknown argument {given}{nearest(given, [*known, *settings])}: see --help")
        if settings[given] in refused:
            raise UsageError(f"{given} does not apply here: leave it out, see --help")


def check_training(words, *numbers_of_ranks):
    """Check training flags on numbers of ranks: (config, names of the settings given). Raises ``UsageError``."""
    config, given = parse_train(words)
    for ranks in numbers_of_ranks:
        config.check(ranks, given)
    return config, given


def facts(module, argv):
    """Provenance of a result: command, commit, time, versions, processor, usable hardware threads."""
    found = facts_of(command_line(module, argv))
    return {**found, "cpu": found["versions"]["cpu"], "cores": mpirun.usable_threads()}


def claim(folder, name, module, argv):
    """Create the folder ``--out``, if it is given, and return the ``facts``.

    Raises ``UsageError`` if its file ``name`` is not of this command.
    """
    if folder:
        make_folder(folder)
        path, command = Path(folder, name), command_line(module, argv)
        text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
        ours = f"# command: {command}\n" in text or f'"command": {json.dumps(command)}' in text
        if path.exists() and not ours:
            raise UsageError(f"{path} is not a result of this same command: give another --out, or move it away")
    return facts(module, argv)


def say(line):
    """Print on standard error what is being done."""
    print(line, file=sys.stderr, flush=True)


def write_result(args, name, text, result, saved=None, table=None, draw=None):
    """Write NAME.json, NAME.csv and NAME.png into the folder ``--out``, if it is given, and print the result.

    Args:
        args: the parsed command line.
        text: the table to print.
        result: dict to print as JSON with ``--json``.
        saved: content of the JSON file (default: no such file).
        table: arguments of ``write_csv`` after the path (default: no such file).
        draw: arguments of ``picture`` without the path, a function and its content (default: no such file).
    """
    place = os.path.join(args.out or "", name)
    if args.out and saved is not None:
        write_json(f"{place}.json", saved)
    if args.out and table is not None:
        write_csv(f"{place}.csv", *table)
    print(text, flush=True)
    if args.out and draw is not None:
        picture(draw[0], f"{place}.png", *draw[1:])
    if args.json:
        print(json.dumps(result), flush=True)


def read_parts(folder, same, names="ranks-*.json"):
    """Read the files ``names`` of a folder, by default the finished parts of a measurement, sorted by name.

    Raises ``UsageError`` for a damaged file, and for a result with settings other than ``same``.
    """
    found = []
    for path in sorted(Path(folder).glob(names)):
        try:
            part = dict(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            raise UsageError(f"{path} is damaged: delete it to measure it again") from None
        if others := [name for name, value in same.items() if part.get(name) != value]:
            raise UsageError(f"{path} has other settings ({', '.join(others)}): give another --out")
        found.append(part)
    return found


def run(main, resumable=False):
    """Run a command's ``main(argv)`` and end the process. Its errors print one line and exit with their ``code``.

    A command is one process: it starts the ranks that it needs.

    A signal also ends the command's job. ``resumable``: the exit code is then ``RUN_AGAIN``, since the command resumes.
    """

    def stop(number, frame):
        raise SystemExit(RUN_AGAIN if resumable else 128 + number)

    for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGUSR1):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
            signal.signal(number, stop)
    try:
        if (launch_variables.promised() or 1) > 1:
            raise UsageError("this command starts its own ranks: run it without mpirun, with --ranks")
        mpirun.set_environment()
        code = main(sys.argv[1:])
    except (UsageError, RunError, OSError) as error:
        known = reportable(error)
        print(f"pg_mpi: error: {known or one_line(error)}", file=sys.stderr)
        code = known.code if known else 1
    except KeyboardInterrupt:
        code = 128 + signal.SIGINT
    sys.exit(code)
