"""Evaluation: ``python -m pg_mpi.evaluate RUN``. Full games from a checkpoint: scores and their interval.

The games are distributed over ranks. Without mpirun or without MPI there is one rank. Game g is the same on any rank.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from pg_mpi.config.errors import SystemFault, UsageError, counted, warn
from pg_mpi.config.parsers import Parser, integer, real
from pg_mpi.config.presets import is_atari
from pg_mpi.files import video
from pg_mpi.files.atomic_file import is_folder, write_json
from pg_mpi.mpi import process
from pg_mpi.mpi.thread_pinning import pin_threads
from pg_mpi.mpi.world import World
from pg_mpi.run.evaluations import best_checkpoint
from pg_mpi.run.trained_policy import MOST_NOOPS, OWN, SavedPolicy, TrainedPolicy, find

PROGRESS_EVERY = 10.0  # seconds


def parser() -> Parser:
    """The command line."""
    p = Parser(
        prog="python -m pg_mpi.evaluate",
        description="Play full games with a trained policy and report mean, median and a 95 % bootstrap interval.",
        epilog="mpirun -n N distributes the games over N ranks. Without sticky actions each game starts "
        f"with up to {MOST_NOOPS} random no-ops, so that the games differ.",
    )
    p.add_argument("run", metavar="RUN", help="a run folder (its newest good checkpoint) or a checkpoint file")
    p.add_argument("--best", action="store_true", help="take the best checkpoint of a run with --evaluate-every")
    p.add_argument("--games", type=integer(), default="100", help="number of games")
    sticky = "probability of a repeated action (default: as the run was trained)"
    p.add_argument("--sticky", type=real(0, 1), help=sticky)
    p.add_argument("--random", action="store_true", help="take uniformly random actions")
    p.add_argument("--greedy", action="store_true", help="take the most probable action instead of sampling")
    p.add_argument("--own", action="append", default=[], metavar="NAME", help=OWN)
    p.add_argument("--seed", type=integer(0), default="0", help="root of the games' random streams")
    p.add_argument("--video", metavar="FILE", help="also write the first game as .mp4 or .gif (extra: video)")
    p.add_argument("--json", action="store_true", help="print the result as JSON on the last line")
    return p


def main(world: World, argv: list[str]) -> int:
    """Evaluate with the arguments of the command line. Collective: every rank must call this."""
    args, saved = world.on_root(_prepare, argv, world.size)
    pin_threads()
    policy = TrainedPolicy(saved, args.sticky, args.greedy, args.random)
    mine = range(world.rank, args.games, world.size)
    results, printed_at = [], time.monotonic()
    for index in mine:
        results.append((index, *_play(policy, index, args)))
        if world.rank == 0 and time.monotonic() - printed_at > PROGRESS_EVERY:
            printed_at = time.monotonic()
            print(f"{len(results)} of {len(mine)} games of rank 0 played", file=sys.stderr, flush=True)
    parts: Any = world.gather(results)
    if world.rank == 0:
        played = sorted(result for part in parts for result in part)
        _print_result(args, policy, world.size, [score for _, score, _ in played], [steps for *_, steps in played])
    return 0


def _play(policy: TrainedPolicy, index: int, args: argparse.Namespace) -> tuple[float, int]:
    """Play one game: (score, agent steps). The first is filmed, if asked."""
    if not args.video or index:
        return policy.play(index, args.seed)
    film = video.Video(args.video, fps=60 / policy.saved.config.frame_skip)
    result = policy.play(index, args.seed, lambda game, _: film.add(game.rgb()))
    film.close()
    return result


def interval(scores: Sequence[float]) -> list[float] | None:
    """95 % bootstrap interval of the mean (percentiles of 10,000 resamples): [low, high]; None for a single score."""
    if len(scores) < 2:
        return None
    rng = np.random.default_rng(0)
    means = [rng.choice(scores, (100, len(scores))).mean(axis=1) for _ in range(100)]  # all at once needs much memory
    return [float(bound) for bound in np.quantile(means, [0.025, 0.975])]


def _prepare(argv: list[str], ranks: int) -> tuple[argparse.Namespace, SavedPolicy]:
    args = parser().parse(argv)
    if args.random and args.greedy:
        raise UsageError("--random and --greedy contradict each other: give one")
    if ranks > args.games:
        raise UsageError(f"{ranks} ranks for {args.games} games: start at most {args.games} ranks, or raise --games")
    if args.video:
        video.check(args.video)
    saved = find(best_checkpoint(args.run) if args.best else args.run, args.own)
    if args.sticky is not None and not is_atari(saved.config.env_id):
        raise UsageError(f"--sticky has no effect on {saved.config.env_id}: leave it out")
    return args, saved


def _print_result(
    args: argparse.Namespace, policy: TrainedPolicy, ranks: int, scores: list[float], lengths: list[int]
) -> None:
    ci95 = interval(scores)
    spread = "unknown (one game)" if ci95 is None else f"[{ci95[0]:+.2f}, {ci95[1]:+.2f}] (bootstrap)"
    config, path = policy.saved.config, policy.saved.path
    arcade = is_atari(config.env_id)
    starts = f", up to {MOST_NOOPS} random no-ops at the start" if policy.starts_with_noops else ""
    frames = f", frame skip {config.frame_skip}, at most {config.max_frames:,} frames a game" if arcade else ""
    frames = f", sticky actions {policy.sticky:g}{frames}" if arcade else ""
    draws = "random" if args.random else "greedy" if args.greedy else "sampled"
    result = {
        "games": len(scores),
        "mean": float(np.mean(scores)),
        "median": float(np.median(scores)),
        "ci95": ci95,
        "sticky": policy.sticky,
        "greedy": args.greedy,
        "random": args.random,
        "seed": args.seed,
        "env_id": config.env_id,
        "checkpoint": path,
        "ranks": ranks,
        "length_mean": float(np.mean(lengths)),
        "scores": scores,
        "lengths": lengths,
    }
    if not args.random:
        _keep(args, result)
    print(
        f"{config.env_id} from {path}\n"
        f"protocol: {len(scores)} full games, {draws} actions{frames}{starts}, seed {args.seed}, "
        f"{counted(ranks, 'rank')}\n"
        f"mean {np.mean(scores):+.2f}   95 % interval {spread}   "
        f"median {np.median(scores):+.1f}   lowest {min(scores):+g}   highest {max(scores):+g}   "
        f"{np.mean(lengths):,.0f} steps a game",
        flush=True,
    )
    if args.video:
        print(f"video of the first game (score {scores[0]:+g}): {args.video}", flush=True)
    if args.json:
        print(json.dumps(result), flush=True)


def _keep(args: argparse.Namespace, result: dict[str, Any]) -> None:
    """Write the result into the run folder, if ``RUN`` is one, for ``pg_mpi.report``; warn if it cannot be written."""
    video_folder, film = os.path.split(os.path.realpath(args.video)) if args.video else (None, None)
    inside = video_folder == os.path.realpath(args.run)
    kept = result | {"checkpoint": os.path.basename(result["checkpoint"]), "video": film if inside else None}
    try:
        if is_folder(args.run):
            write_json(os.path.join(args.run, "evaluation.json"), kept)
    except (OSError, SystemFault) as error:
        warn(f"evaluation.json cannot be written into {args.run} ({error}): a report will not show it")


if __name__ == "__main__":
    process.run(main, sys.argv[1:], optional_mpi=True, parser=parser)
