"""Check a launch: ``python -m pg_mpi.doctor``. Every rank collects facts and runs trials; rank 0 reports."""

import argparse
import functools
import json
import sys
from typing import Any, cast

from pg_mpi.config.parsers import Parser, integer, real
from pg_mpi.config.settings import TrainConfig
from pg_mpi.mpi import process, thread_pinning
from pg_mpi.mpi.launch import launch_variables
from pg_mpi.mpi.world import World


def parser() -> Parser:
    """Return the command-line parser."""
    p = Parser(
        prog="python -m pg_mpi.doctor",
        description="Report what this launch runs on - hosts, cores, BLAS threads, MPI, emulator, network - and its "
        "faults, each with a cure. Start it as you would start the trainer: "
        "mpirun -n 4 python -m pg_mpi.doctor.",
        epilog="Facts are read from what is loaded and pinned, or measured. Takes about six seconds. Exit code 0; "
        "with --strict 1 if there is a fault.",
    )
    p.add_argument("--strict", action="store_true", help="exit 1 if there is a fault")
    p.add_argument("--json", action="store_true", help="print one line of JSON, last")
    p.add_argument("--seconds", metavar="S", type=real(0, open_low=True), default="1", help="length of each trial")
    p.add_argument("--env-id", metavar="ID", default=TrainConfig.env_id, help="the game")
    ranks = "number of ranks expected (default: as the launcher says)"
    p.add_argument("--expect-ranks", metavar="N", type=integer(), help=ranks)
    return p


def main(world: World, argv: list[str], import_s: float) -> int:
    """Run the doctor and return the exit code. Collective: every rank must call this."""
    args: argparse.Namespace = world.on_root(_parsed, argv)
    from pg_mpi.doctor import facts, machine, trials

    thread_pinning.pin_threads()  # as the trainer does
    mine = facts.describe(world) | {"import_s": round(import_s, 2)}
    mine["emulator"] = trials.play(world, args.env_id, args.seconds)
    measured = {
        "allreduce_s": trials.exchange(world, args.seconds),
        "memory_gb_s": trials.memory(world, args.seconds, mine["memory_mb"]),
    }
    mine["fabric_in_use"] = machine.fabric_in_use()  # after the exchange
    ranks = world.gather(mine)
    return cast(int, world.on_root(_print_result, args, ranks, measured))


def _parsed(argv: list[str]) -> argparse.Namespace:
    from pg_mpi.env.atari import rom_name

    args = parser().parse(argv)
    rom_name(args.env_id)  # an unknown game is no fault of the machine
    return args


def _print_result(args: argparse.Namespace, ranks: list[dict[str, Any]], measured: dict[str, Any]) -> int:
    """Print the report and return the exit code. Rank 0 only."""
    from pg_mpi.doctor import text, verdict

    found = verdict.findings(ranks, launch_variables.promised(), measured["allreduce_s"], args.expect_ranks)
    result = {"ranks": ranks, **measured, "findings": [finding._asdict() for finding in found]}
    code = int(args.strict and any(finding.fault for finding in found))
    if len(ranks) > 1 or launch_variables.is_first_process():  # of separate jobs of one rank only the first prints
        print("\n".join(text.text(result)), flush=True)
        if args.json:
            print(json.dumps(result), flush=True)
    return code


if __name__ == "__main__":
    process.answer_help(parser, sys.argv[1:])
    from pg_mpi.doctor import facts, trials  # noqa: F401 imported before MPI starts, as by the trainer

    # a launch that MPI does not connect is a finding, not an error
    process.run(functools.partial(main, import_s=facts.age()), sys.argv[1:], check_launch=False)
