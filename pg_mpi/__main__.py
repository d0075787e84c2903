"""All commands under one name: ``pg-mpi COMMAND ...``, the same as ``python -m pg_mpi.COMMAND ...``."""

import os
import runpy
import sys

from pg_mpi import __version__

COMMANDS = {
    "train": "train on every rank: mpirun -n 4 pg-mpi train",
    "evaluate": "play full games with a trained policy and report the score",
    "status": "list runs: state, progress, time left, reason for the end",
    "watch": "watch a policy play in the terminal, while it is trained",
    "report": "write a page with curves, tables and provenance of runs",
    "doctor": "check this machine's MPI, pinning and speed",
    "tune": "search for better settings",
    "bandit": "compare policy gradients and other learners on a multi-armed bandit",
    "benchmark": "measure the training speed of this machine",
}
HELP = f"""usage: pg-mpi COMMAND ...

Policy gradients on many CPU cores, over MPI.

{chr(10).join(f"  {name:9} {line}" for name, line in COMMANDS.items())}

pg-mpi COMMAND --help describes each. python -m pg_mpi.COMMAND is the same
(python -m scaling.benchmark)."""


def main() -> None:
    """Run a command of the command line."""
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name in COMMANDS:
        module = "scaling.benchmark" if name == "benchmark" else f"pg_mpi.{name}"
        sys.argv = [module, *sys.argv[2:]]
        sys.path.insert(0, os.getcwd())  # as python -m has it, for code of the user
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        return
    from pg_mpi.mpi import process

    process.run_alone(describe, [name])


def describe(argv: list[str]) -> int:
    """Print the help or the version; returns the exit code. Raises ``UsageError`` for an unknown command."""
    (name,) = argv
    if name == "--version":
        print(f"pg-mpi {__version__}")
    elif name in ("", "-h", "--help"):
        print(HELP)
    else:
        from pg_mpi.config.errors import UsageError
        from pg_mpi.config.parsers import nearest

        raise UsageError(f"unknown command {name!r}{nearest(name, COMMANDS)}: use {', '.join(COMMANDS)}")
    return 0 if name else 2


if __name__ == "__main__":
    main()
