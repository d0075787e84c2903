"""One trial: a training run of a group, limited by a budget and pruned if other trials are better."""

import contextlib
from collections.abc import Callable
from typing import NamedTuple, cast

from pg_mpi.config.errors import SystemFault, described, reportable
from pg_mpi.config.settings import TrainConfig
from pg_mpi.mpi.signals import Stop
from pg_mpi.mpi.world import World
from pg_mpi.run.trainer import Trainer
from pg_mpi.train import one_round
from pg_mpi.tune.study import PARTS

Report = Callable[[int, float], bool]

COMPLETE, PRUNED, FAILED, STOPPED = "complete", "pruned", "failed", "stopped"


class Outcome(NamedTuple):
    """Result of a trial: state, score (mean of the last 100 games, or None) and the reason of a failure."""

    state: str
    score: float | None = None
    why: str = ""


class Judge:
    """Decide after each update whether a trial continues (None), is ``PRUNED``, or ``COMPLETE``.

    Args:
        budget: training seconds, over all starts of the trial.
        report: function (part of ``PARTS``, score) → whether to prune; called on the group's rank 0 only.
    """

    def __init__(self, budget: float, report: Report | None) -> None:
        self.budget, self._report, self._part = budget, cast(Report, report), 0

    def __call__(self, seconds: float, score: float | None) -> str | None:
        if seconds >= self.budget:
            return COMPLETE
        part = int(PARTS * seconds / self.budget)
        if part > self._part and score is not None:
            self._part = part
            if self._report(part, score):
                return PRUNED
        return None


def play(
    group: World, config: TrainConfig, given: set[str], judge: Judge, stop: Stop, progress: Callable[[], None]
) -> Outcome:
    """Train until the budget is spent, a signal arrives, the judge prunes, or a rank fails; return an ``Outcome``.

    Collective: every rank of ``group``, a ``World`` of ``World.group``, must call this. An exception on one of its
    ranks ends the trial on all of them; one that MPI raises within a call ends the job, and so does an error of the
    system, as a ``SystemFault``.
    """
    group.restart_clock()  # each trial counts its own seconds
    try:
        with contextlib.closing(Trainer(group, config, given)) as trainer:
            outcome = _play_on(group, trainer, judge, stop, progress)
    except Exception as error:
        group.report_failure(error)
        fault = reportable(error)
        if isinstance(fault, SystemFault) and not isinstance(error, MemoryError):
            raise fault from None  # of the machine, not of the settings: the job ends
        outcome = Outcome(FAILED, why=described(error))
    outcomes: list[Outcome] = group.gather_all(outcome)
    # a failure before any other outcome, and its cause before the failures of the other ranks
    return min(outcomes, key=lambda each: (each.state != FAILED, each.why.startswith("PeerFailed")))


def _play_on(group: World, trainer: Trainer, judge: Judge, stop: Stop, progress: Callable[[], None]) -> Outcome:
    while True:
        if one_round(group, trainer, stop, progress) is not None:  # a stop: the trainer itself has no limit set
            return Outcome(STOPPED)
        progress()
        verdict = group.on_root(judge, trainer.seconds, trainer.counters.return_mean)
        if verdict and (skipped := trainer.learner.skipped_in_row) > 1:  # a single one is nothing unusual
            return Outcome(FAILED, why=f"its last {skipped} updates had no finite gradient")
        if verdict == PRUNED:
            trainer.finish("pruned: other trials are ahead", finished=True, stop=stop)
            return Outcome(PRUNED, trainer.counters.return_mean)
        if verdict == COMPLETE:
            trainer.finish(f"the trial's {judge.budget:g} s are over", finished=True, stop=stop)
            if trainer.counters.return_mean is None:
                return Outcome(FAILED, why="no game ended within the budget: give a longer one")
            return Outcome(COMPLETE, trainer.counters.return_mean)
