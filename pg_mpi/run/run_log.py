"""The log of a run on rank 0: metrics, progress, start and end."""

import dataclasses
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pg_mpi import STARTED, __version__
from pg_mpi.config.errors import counted
from pg_mpi.config.presets import own_flags
from pg_mpi.config.settings import TrainConfig
from pg_mpi.env.interface import EnvSpec
from pg_mpi.files import checkpoint_folder, provenance
from pg_mpi.files.atomic_file import write_json, writing
from pg_mpi.files.metrics_file import MetricsLog, Progress, TensorBoard
from pg_mpi.files.run_folder import RunFolder
from pg_mpi.mpi.launch.launch_variables import reaches_terminal
from pg_mpi.policy.interface import Policy
from pg_mpi.run import evaluations
from pg_mpi.run.counters import Counters
from pg_mpi.run.update_size import describe


class RunLog:
    """A run folder's logs and the lines on standard output. Open on rank 0 only, where all methods are called.

    Attributes:
        is_open: whether this rank writes the logs.
        metrics: of the last update of this start; None before the first, and on other ranks.
    """

    is_open = False
    metrics: dict[str, Any] | None = None

    def __init__(self, clock: Callable[[], float], config: TrainConfig, folder: RunFolder, counters: Counters) -> None:
        """``clock``: as of ``World``; ``counters``: those at the start of training."""
        self._clock, self._config, self._folder, self._counters = clock, config, folder, counters
        self._begun = counters.update

    def open(self, facts: dict[str, Any]) -> tuple[float, int]:
        """Open the logs; returns (training seconds, starts) before this one.

        The metrics up to the counters' update are kept, or none if the folder has no checkpoint of its own.

        ``facts``: the provenance of this start, for ``config.json``.
        """
        self._facts = facts
        with writing(self._folder.path):
            self._folder.reopen()  # close() writes DONE again if the run is finished
            earlier = self._folder.starts()
            restarts = self._folder.begin(dataclasses.asdict(self._config), facts)
        self._changes = provenance.changes(earlier[-1], facts) if earlier else []
        own = checkpoint_folder.candidates(self._folder.path)  # else the lines are of starts that saved nothing
        self.take_over(self._counters.update if own else 0)
        return self._log.seconds_before, restarts

    def take_over(self, kept: int) -> None:
        """Open the logs. A new rank 0 calls this alone, since the start is already in ``config.json``.

        ``kept``: the update of the last line of metrics to keep.
        """
        self.is_open = True
        config, folder = self._config, self._folder
        clock = self._clock  # a closure over self would be a reference cycle, which delays the release of the lock
        self._progress = Progress(config, lambda: clock() - STARTED, reaches_terminal(sys.stdout))
        self._tensorboard: TensorBoard | None = None
        with writing(folder.path):
            self._log = MetricsLog(folder.file("metrics.jsonl"), kept)
            if config.track:
                self._tensorboard = TensorBoard(folder.file("tensorboard"), self._counters.env_steps)

    def banner(self, env_spec: EnvSpec, policy: Policy, resumed_from: str | None) -> None:
        """Print the run's set-up. ``resumed_from``: the path of a checkpoint, or None."""
        config, say, ranks, where = self._config, self._progress.say, self._facts["ranks"], self._facts["places"]
        hosts = ", ".join(row["host"] for row in where["by_host"])
        if where["hosts"] > len(where["by_host"]):
            hosts += ", ..."
        say(f"pg_mpi {__version__}: {config.env_id}, preset {config.preset}, seed {config.seed}")
        mpi = self._facts["mpi"] or "none"
        say(f"{counted(ranks, 'rank')} on {counted(where['hosts'], 'host')} ({hosts}), MPI: {mpi}")
        for row in where["by_host"]:
            say(f"  {row['host']}: {counted(row['ranks'], 'rank')} on cores {row['cores']}")
        for row in where["by_kind"]:
            which = "all ranks" if row["ranks"] == ranks else f"{row['ranks']} ranks, the first is rank {row['first']}"
            say(f"  {row['threads']} BLAS thread{'s' if row['threads'] > 1 else ''} ({row['blas']}) on {which}")
            if env_spec.sparse and row["why_numpy"]:
                say(f"  features by numpy on {which}, less than half the steps/s: {row['why_numpy']}")
        does, sees, *more = env_spec.describe(config)
        say(f"policy: {does}, {policy.theta.size:,} parameters; {sees}")
        for line in [*more, *describe(config, ranks * config.envs_per_rank)]:
            say(line)
        if resumed_from:
            into = "" if Path(resumed_from).is_relative_to(self._folder.path) else f"; new run in {self._folder.path}"
            update, steps = self._counters.update, self._counters.env_steps
            say(f"resumed from {resumed_from}: update {update}, {steps:,} steps{into}")
            if self._changes:
                say(f"changed since the last start, so bits may differ: {'; '.join(self._changes)}")
        else:
            say(f"new run in {self._folder.path}")

    def write(self, metrics: dict[str, Any]) -> None:
        """Write an update's metrics and print the progress."""
        self.metrics = metrics
        with writing(self._folder.path):
            self._folder.check()
            self._log.write(metrics)
            if self._tensorboard:
                self._tensorboard.write(metrics)
        self._progress.show(metrics)

    def sync(self) -> None:
        """Make all lines durable, before a checkpoint that follows them. Raises ``RunError``."""
        with writing(self._folder.path):
            self._folder.check()
            self._log.sync()

    def lost(self, losses: Sequence[tuple[Sequence[int], int]], seconds: float) -> int:
        """Print the failed ranks and the number of survivors; returns the update of the last metrics line.

        ``losses``: (failed ranks, ranks left), one for each time that ranks were lost since the last update.
        """
        which = ", then ".join(
            f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))} of {len(ranks) + left}"
            for ranks, left in losses
        )
        done = f"after update {self._counters.update}"
        self._progress.say(f"lost {which}: {losses[-1][1]} left, which continue with all envs {done} ({seconds:.2f} s)")
        return self._log.last

    def evaluated(self, env_steps: int, score: float) -> None:
        """Add the evaluation of the checkpoint after ``env_steps`` to the folder's, and print its score."""
        with writing(self._folder.path):
            self._folder.check()
        path = checkpoint_folder.path_of(self._folder.checkpoints, env_steps)
        games = evaluations.GAMES
        best = ", the best so far" if evaluations.add(self._folder.path, path, env_steps, score, games) else ""
        self._progress.say(f"evaluated after {env_steps:,} steps: mean {score:+.2f} of {games} full games{best}")

    def write_ranks(self, restarts: int, times: dict[str, Any]) -> None:
        """Write ``ranks.json``: the ``rank_times.summary`` since this start began."""
        path = self._folder.file("ranks.json")
        with writing(path), self._folder.replacing():
            write_json(path, {"start": restarts, "update": self._counters.update, **times})

    def close(self, reason: str, finished: bool, waited: float) -> None:
        """Print the reason for the end, ``waited`` seconds after a signal; mark the folder DONE if finished."""
        board, self._tensorboard = self._tensorboard, None  # after a rank is lost, this is called again
        if board:
            with writing(self._folder.path):
                board.close()
        if self.metrics:
            self._progress.show(self.metrics, force=True)
        facts = {"reason": reason, **self._counters.metrics(), "env_steps": self._counters.env_steps}
        with writing(self._folder.path):
            self._folder.check()
            self._folder.end(dataclasses.asdict(self._config), reason)
            if finished:
                write_json(self._folder.file("DONE"), facts)
        if finished:
            self._progress.say(f"finished: {reason}. Run folder: {self._folder.path}")
            words = shlex.join([self._folder.path, *own_flags(vars(self._config))])
            self._progress.say(f"next: python -m pg_mpi.evaluate {words} (or watch, report)")
        else:
            saved = f"Checkpoint saved {waited:.2f} s later" if waited else "Checkpoint saved"
            same = "it again without the flag --resume" if self._config.resume == "never" else "the same command again"
            if self._counters.update == self._begun:
                reason += ". No update was completed: a round that is not over is discarded"
            self._progress.say(f"stopped: {reason}. {saved}; run {same} to resume {self._folder.path}")
        self._folder.unlock()
