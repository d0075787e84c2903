"""Measure training against the emulator's speed, part by part: ``python -m scaling.measure.ceiling``.

The command starts its own ranks. All parts play the same games, those of the policy in training. They are interleaved,
so that drift affects all of them. The training is not kept.
"""

from pg_mpi.config.errors import UsageError
from pg_mpi.config.parsers import integer
from pg_mpi.config.presets import is_atari
from pg_mpi.mpi.launch import mpirun
from scaling import cli
from scaling.measure import timed_run
from scaling.measure.ceiling import breakdown

#: Training settings that cannot be given here: how long to train, and where.
REFUSED = {"run_dir", "total_timesteps", "max_walltime", "target_return", "track", "expect_ranks", "elastic"}
REFUSED |= {"reproducible", "replay"}  # not supported by the measured parts


def parser():
    """Create the argument parser."""
    p = cli.parser(
        "scaling.measure.ceiling",
        "Measure the emulator alone, then with one more part of playing at a time, then training, then "
        "training with a stub in place of the exchange. The table lists the cost of each part and its speed relative "
        "to the emulator. The command starts its own ranks: run it without mpirun.",
        "All other flags are those of pg_mpi.train: --resume RUN measures with the policy of another run, "
        "--envs-per-rank 8 --sync steps with fixed steps. Takes about 7 x SECONDS x REPEATS. Run nothing "
        "else on the machine meanwhile.",
    )
    cli.add_option(p, "--ranks", "N", integer(), "MPI ranks (default: one per usable core)")
    cli.add_option(p, "--seconds", "S", cli.positive, "length of each measurement", 5)
    cli.add_option(p, "--repeats", "R", integer(), "measurements of each part", 4)
    return cli.add_shared(p, "also write ceiling.json there", preset=True)


def prepare(argv):
    """Parse and check a command line: (args, config, names of the training settings given).

    Raises ``UsageError``.
    """
    args, words = cli.parse_training(parser(), argv, REFUSED)
    args.ranks = args.ranks or mpirun.usable_cores()
    config, given = cli.check_training(words, args.ranks)
    if not is_atari(config.env_id) or config.policy != "usual":
        raise UsageError(f"{config.env_id} cannot be measured here: give an Atari game and the built-in policy")
    return args, config, given


def main(argv):
    """Measure and report. Returns the exit code."""
    args, *_ = prepare(argv)
    facts = cli.claim(args.out, "ceiling.json", "scaling.measure.ceiling", argv)
    measured = timed_run.result_of(args.ranks, "scaling.measure.ceiling.ranks", [*argv, f"--ranks={args.ranks}"])
    result = {
        **breakdown.summary(measured.pop("speeds"), args.ranks),
        **{name: getattr(args, name) for name in ("ranks", "preset", "seconds", "repeats")},
        **facts,
        **measured,
    }
    cli.write_result(args, "ceiling", breakdown.table(result), result, saved=result)
    return 0


if __name__ == "__main__":
    cli.run(main)
