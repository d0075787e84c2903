"""Measure the cost of slow steps in three ways of driving environments: ``python -m scaling.measure.lockstep``."""

import numpy as np

from pg_mpi.config.errors import UsageError
from pg_mpi.config.parsers import integer, real
from scaling import cli
from scaling.measure import timed_run
from scaling.measure.lockstep.times import TALK, WAYS, Times, ideal
from scaling.pictures import timeline

KIND = ("lockstep", 1)
MOST, LONGEST = 100_000, 60_000.0  # environments or steps; milliseconds


def parser():
    """Create the argument parser."""
    p = cli.parser(
        "scaling.measure.lockstep",
        "Drive environments whose step takes 3 ms and sometimes 100 ms, one per rank, in three ways: all "
        "in lock-step, as vector environments; each independently until the update, as batched rollouts; and in "
        "lock-step within each of several workers. Reports milliseconds per step and the idle share.",
        "A step is a sleep, which needs no core, so there can be more ranks than cores. All ways play the same "
        "step times. The command starts its own ranks: run it without mpirun.",
    )
    count, time = integer(1, MOST), real(0, LONGEST, open_low=True)
    cli.add_option(p, "--envs", "N", count, "environments, one per rank", 8)
    cli.add_option(p, "--workers", "W", count, "groups of the hybrid", 2)
    cli.add_option(p, "--steps", "T", count, "steps of each one until the update", 200)
    cli.add_option(p, "--usual", "MS", time, "milliseconds of a usual step", 3)
    cli.add_option(p, "--slow", "MS", time, "milliseconds of a slow step", 100)
    p.add_argument("--chance", metavar="P", type=real(0, 1), default="0.028", help="probability of a slow step "
                   "(default: 0.028, which makes one in five steps of a vector of 8 slow, as in the talk)")  # fmt: skip
    cli.add_option(p, "--gaussian", "MS", time, "normal step times about --usual with this deviation instead")
    cli.add_option(p, "--seed", "S", integer(0), "seed of the step times", 0)
    cli.add_option(p, "--shown", "K", count, "steps in the figure", 40)
    return cli.add_shared(p, "also write lockstep.json, .csv and .png there (extra: plot)")


def prepare(argv):
    """Parse and check a command line: (args, ``Times``). Raises ``UsageError``."""
    args = parser().parse(argv)
    if args.workers > args.envs:
        raise UsageError(f"--workers {args.workers} cannot share {args.envs} environments: give more --envs or fewer")
    return args, Times(args.usual, args.slow, args.chance, args.gaussian or 0.0)


def main(argv):
    """Measure and report. Returns the exit code."""
    cli.refuse_mpirun()
    args, times = prepare(argv)
    cli.claim(args.out, "lockstep.json", "scaling.measure.lockstep", argv)
    measured = timed_run.result_of(args.envs, "scaling.measure.lockstep.ranks", argv)
    durations = np.stack([times.draw(env, args.steps, args.seed) for env in range(args.envs)])
    rows = [row(way, measured[way], durations, args.workers) for way in WAYS]
    facts = cli.facts("scaling.measure.lockstep", argv)
    result = {
        "rows": rows,
        "mean_step_ms": float(1e3 * durations.mean()),
        "slow_vectors": float(np.mean((durations > 2e-3 * times.usual).any(axis=0))),
        **{name: getattr(args, name) for name in ("envs", "workers", "steps")},
        "times": vars(times),
        **facts,
    }
    figure = (timeline.draw_lockstep, rows, {way: [each["spans"] for each in measured[way]] for way in WAYS})
    cli.write_result(args, "lockstep", table(result), result, saved=result, table=(*KIND, rows, facts), draw=figure)
    return 0


def row(way, ranks, durations, workers):
    """One way: milliseconds per step of each environment, idle share, and the ideal without overhead."""
    seconds, steps = max(rank["seconds"] for rank in ranks), durations.shape[1]
    return {
        "way": way,
        "ms_per_step": 1e3 * seconds / steps,
        "ideal_ms_per_step": 1e3 * ideal(way, durations, workers) / steps,
        "idle": 1 - sum(rank["stepping"] for rank in ranks) / (seconds * len(ranks)),
        "talk_ms_per_step": TALK[way][0],
    }


def table(result):
    """Format the result as text."""
    lines = [
        f"{result['envs']} environments, {result['steps']} steps each, {result['mean_step_ms']:.1f} ms a step on "
        f"average; {result['slow_vectors']:.0%} of the vector steps contain a slow one; hybrid: "
        f"{result['workers']} workers",
        "",
        f"{'':<13}{'ms/step':>9}{'ideal':>8}{'idle':>8}{'talk':>8}   the talk assumes",
    ]
    for each in result["rows"]:
        lines.append(
            f"{each['way']:<13}{each['ms_per_step']:>9.1f}{each['ideal_ms_per_step']:>8.1f}{each['idle']:>8.1%}"
            f"{each['talk_ms_per_step']:>8.0f}   {TALK[each['way']][1]}"
        )
    first, *rest = result["rows"]
    lines += [""] + [
        f"{each['way']} is {first['ms_per_step'] / each['ms_per_step']:.1f} times as fast as lock-step" for each in rest
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    cli.run(main)
