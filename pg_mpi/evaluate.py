"""Evaluation: ``python -m pg_mpi.evaluate RUN``. Full games from a checkpoint: scores and their interval.

The games are distributed over ranks. Without mpirun or without MPI there is one rank. Game g is the same on any rank.
"""

import argparse
import contextlib
import dataclasses
import json
import os
import sys
import time
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from pg_mpi.config.errors import CheckpointError, UsageError
from pg_mpi.config.parsers import Parser, integer, real
from pg_mpi.config.presets import names_foreign_code
from pg_mpi.config.random_streams import EVALUATION_ACTIONS, EVALUATION_STICKY, stream
from pg_mpi.config.settings import TrainConfig, inapplicable
from pg_mpi.env import registry
from pg_mpi.env.interface import Environment, EnvSpec
from pg_mpi.files import checkpoint_folder, video
from pg_mpi.files.atomic_file import is_folder, write_json
from pg_mpi.files.checkpoint_file import Arrays
from pg_mpi.mpi import process
from pg_mpi.mpi.pinning import pin_threads
from pg_mpi.mpi.world import World
from pg_mpi.policy.interface import Network
from pg_mpi.run import factory, saved_run
from pg_mpi.run.resume import warn

OWN = "package.module:name of the run's env, policy or features, which may be imported"
MOST_NOOPS = 30  # at the start of games without sticky actions, which would all be the same otherwise
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
    p.add_argument("--games", type=integer(), default="100", help="number of games (default: 100)")
    sticky = "probability of a repeated action (default: as the run was trained)"
    p.add_argument("--sticky", type=real(0, 1), help=sticky)
    p.add_argument("--random", action="store_true", help="take uniformly random actions")
    p.add_argument("--greedy", action="store_true", help="take the most probable action instead of sampling")
    p.add_argument("--own", action="append", default=[], metavar="NAME", help=OWN)
    p.add_argument("--seed", type=integer(0), default="0", help="root of the games' random streams (default: 0)")
    p.add_argument("--video", metavar="FILE", help="also write the first game as .mp4 or .gif (extra: video)")
    p.add_argument("--json", action="store_true", help="print the result as JSON on the last line")
    return p


def main(world: World, argv: list[str]) -> int:
    """Evaluate with the arguments of the command line. Collective: every rank must call this."""
    args, config, env_spec, weights, path = world.on_root(_prepare, argv, world.size)
    pin_threads()
    policy = factory.make_policy(config, env_spec)
    saved_run.fill_policy(policy, weights)
    network = cast(Network, RandomPolicy(env_spec, config.squash)) if args.random else policy.expand()
    evaluator = Evaluator(network, config, env_spec, args)
    mine = range(world.rank, args.games, world.size)
    results, spoken = [], time.monotonic()
    for index in mine:
        film = video.Video(args.video, fps=60 / config.frame_skip) if args.video and index == 0 else None
        results.append((index, *evaluator.play(index, film)))
        if world.rank == 0 and time.monotonic() - spoken > PROGRESS_EVERY:
            spoken = time.monotonic()
            print(f"{len(results)} of {len(mine)} games of rank 0 played", file=sys.stderr, flush=True)
    parts: Any = world.gather(results)
    if world.rank == 0:
        played = sorted(result for part in parts for result in part)
        _tell(args, config, path, world.size, [score for _, score, _ in played], [steps for *_, steps in played])
    return 0


class RandomPolicy:
    """A policy in place of a network: all actions are equally likely."""

    def __init__(self, env_spec: EnvSpec, squash: str) -> None:
        self._env_spec, self._before = env_spec, np.arctanh if squash == "tanh" else np.asarray

    def sample(
        self, observations: Sequence[Any], generators: Sequence[np.random.Generator]
    ) -> list[tuple[float, Any, float]]:
        """(value, action, log-probability) for each observation. Continuous actions end between -1 and 1."""
        known: Any = self._env_spec
        if known.gaussian:
            return [(0.0, self._before(rng.uniform(-1, 1, len(known.spaces.low))), 0.0) for rng in generators]
        return [(0.0, int(rng.integers(len(known.codes))), 0.0) for rng in generators]


class Evaluator:
    """Plays whole games with one network."""

    def __init__(self, network: Network, config: TrainConfig, env_spec: EnvSpec, args: argparse.Namespace) -> None:
        self._network, self._env_spec, self._args = network, env_spec, args
        self._config = dataclasses.replace(config, sticky=args.sticky)

    def play(self, index: int, film: video.Video | None = None) -> tuple[float, int]:
        """Play game ``index``: (score, agent steps). ``film``: a ``Video`` that gets every screen."""
        config, args = self._config, self._args
        sticky = stream(args.seed, EVALUATION_STICKY, index)
        with contextlib.closing(self._env_spec.make_game(config, sticky, film is not None)) as game:
            return self._play(game, index, film)

    def _play(self, game: Environment, index: int, film: video.Video | None) -> tuple[float, int]:
        config, args, network = self._config, self._args, self._network
        rng = stream(args.seed, EVALUATION_ACTIONS, index)
        score: float = 0
        steps = 0
        if args.sticky == 0 and self._env_spec.sparse:
            for _ in range(rng.integers(MOST_NOOPS + 1)):
                score += game.step(cast(Any, self._env_spec).idle)
                steps += 1
        encoder = self._env_spec.make_encoder(config)
        observation = encoder.start(game.screen)
        while not game.over():
            action = network.likeliest(observation) if args.greedy else network.sample([observation], [rng])[0][1]
            score += game.step(self._env_spec.codes[action])
            steps += 1
            observation = encoder.step(game.screen)
            if film:
                film.add(game.rgb())
        if film:
            film.close()
        return score, steps


def interval(scores: Sequence[float]) -> list[float]:
    """95 % bootstrap interval of the mean (percentiles of 10,000 resamples): [low, high]."""
    from scipy.stats import bootstrap

    if len(set(scores)) == 1:
        return [float(scores[0])] * 2
    result = bootstrap((scores,), np.mean, n_resamples=10_000, method="percentile", rng=np.random.default_rng(0))
    return [float(bound) for bound in result.confidence_interval]


def _prepare(argv: list[str], ranks: int) -> tuple[argparse.Namespace, TrainConfig, EnvSpec, Arrays, str]:
    args = parser().parse(argv)
    if args.random and args.greedy:
        raise UsageError("--random and --greedy contradict each other: give one")
    if ranks > args.games:
        raise UsageError(f"{ranks} ranks for {args.games} games: start at most {args.games} ranks, or raise --games")
    if args.video:
        video.check(args.video)
    try:
        found = checkpoint_folder.load_newest(args.run, warn)
        if not found:
            raise UsageError(f"{args.run} holds no checkpoint: give a run folder such as runs/pong, or a file")
        path, arrays, facts = found
        config, env_spec = saved_run.config_of(path, facts), saved_run.env_spec_of(arrays, facts)
        saved_run.check_size(config, env_spec, arrays)
        for setting, name in vars(config).items():
            if names_foreign_code(setting, name) and name not in args.own:
                raise UsageError(f"{path} needs {name} to be imported and run: give --own {name} if you trust it")
        registry.check(config)
        factory.try_out(config, env_spec)
    except CheckpointError as error:
        raise UsageError(str(error)) from None
    if args.sticky is None:
        args.sticky = config.sticky
    elif "sticky" in inapplicable(config.env_id):
        raise UsageError(f"--sticky has no effect on {config.env_id}: leave it out")
    weights: Arrays = {name: arrays[name] for name in ("theta", "running_norm") if name in arrays}
    return args, config, env_spec, weights, path


def _tell(
    args: argparse.Namespace, config: TrainConfig, path: str, ranks: int, scores: list[float], lengths: list[int]
) -> None:
    low, high = interval(scores)
    arcade = "sticky" not in inapplicable(config.env_id)
    starts = f", up to {MOST_NOOPS} random no-ops at the start" if arcade and args.sticky == 0 else ""
    frames = f", frame skip {config.frame_skip}, at most {config.max_frames:,} frames a game" if arcade else ""
    frames = f", sticky actions {args.sticky:g}{frames}" if arcade else ""
    draws = "random" if args.random else "greedy" if args.greedy else "sampled"
    print(
        f"{config.env_id} from {path}\n"
        f"protocol: {len(scores)} full games, {draws} actions{frames}{starts}, seed {args.seed}, {ranks} ranks\n"
        f"mean {np.mean(scores):+.2f}   95 % interval [{low:+.2f}, {high:+.2f}] (bootstrap)   "
        f"median {np.median(scores):+.1f}   lowest {min(scores):+g}   highest {max(scores):+g}   "
        f"{np.mean(lengths):,.0f} steps a game",
        flush=True,
    )
    if args.video:
        print(f"video of the first game (score {scores[0]:+g}): {args.video}", flush=True)
    result = {
        "games": len(scores),
        "mean": float(np.mean(scores)),
        "median": float(np.median(scores)),
        "ci95": [low, high],
        "sticky": args.sticky,
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
    if is_folder(args.run) and not args.random:
        _keep(args, result)
    if args.json:
        print(json.dumps(result), flush=True)


def _keep(args: argparse.Namespace, result: dict[str, Any]) -> None:
    """Write the result into the run folder, for ``pg_mpi.report``; warn if it cannot be written."""
    video_folder, film = os.path.split(os.path.realpath(args.video)) if args.video else (None, None)
    inside = video_folder == os.path.realpath(args.run)
    kept = result | {"checkpoint": os.path.basename(result["checkpoint"]), "video": film if inside else None}
    try:
        write_json(os.path.join(args.run, "evaluation.json"), kept)
    except OSError as error:
        warn(f"evaluation.json cannot be written into {args.run} ({error.strerror}): a report will not show it")


if __name__ == "__main__":
    process.run(main, sys.argv[1:], optional_mpi=True, parser=parser)
