"""The study: proposes settings and records results. Only rank 0 of a group uses it. The only module to import Optuna.

A study is stored in a journal file, to which any number of jobs can append at once. Trials are numbered by *slots* 0,
1, 2 .... A slot has a folder with a lock, which a group holds while it plays the trial. A slot with a free lock and an
unfinished trial was left by a killed job; the group that takes the lock resumes the trial.
"""

import functools
import os
from collections.abc import Mapping
from typing import IO, TYPE_CHECKING, Any, NamedTuple, cast

from pg_mpi.config.errors import SystemFault, UsageError, malformed
from pg_mpi.config.random_streams import TUNE, stream
from pg_mpi.files.atomic_file import drop_torn_line, make_folder
from pg_mpi.files.folder_lock import take_lock
from pg_mpi.tune.space import Options

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial, Trial

PATIENCE = 60.0  # seconds to wait for the journal; others write one record at a time
RUNGS = 4  # a trial may be pruned after 1/8, 1/4 and 1/2 of its budget
PARTS = 2 ** (RUNGS - 1)
STATES = {"COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed"}  # of a trial, by Optuna's name


class JournalLock:
    """Optuna's lock of a journal: the file ``lock`` of the study's folder, which the kernel unlocks with its holder."""

    def __init__(self, folder: str, path: str) -> None:
        self._folder, self._path = folder, path
        self._file: IO[str] | None = None

    def acquire(self) -> bool:
        """Wait for the lock, and remove a torn last record of a killed holder; always True. Raises ``SystemFault``."""
        self._file = take_lock(self._folder, "lock", PATIENCE)
        if not self._file:
            raise SystemFault(f"another process has locked the study in {self._folder} for {PATIENCE:g} s", True)
        drop_torn_line(self._path)  # else the next record would be appended to that line, and nobody could read it
        return True

    def release(self) -> None:
        """Give the lock back."""
        cast(IO[str], self._file).close()


class Task(NamedTuple):
    """A trial to play: its slot, the settings proposed for it, and its run folder."""

    slot: int
    params: dict[str, Any]
    folder: str


class Row(NamedTuple):
    """State of a trial: ``state`` is running, complete, pruned or failed; ``score`` is its last mean, or None."""

    slot: int
    state: str
    score: float | None
    params: dict[str, Any]
    why: str


class Study:
    """A study in its journal file.

    Args:
        path: of the journal. The trials' folders are in ``path`` with .trials in place of .journal.
        dimensions: of ``space.read``.
        trials: number of trials, over all jobs.
        seed: root of the samplers' random streams.
    """

    def __init__(self, path: str, dimensions: Mapping[str, Options], trials: int, seed: int) -> None:
        import optuna
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend

        self._optuna, self.dimensions, self._trials, self._seed = optuna, dimensions, trials, seed
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self.folder = folder_of(path)
        pruner = optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=2)
        make_folder(self.folder)
        lock = JournalLock(self.folder, path)
        lock.acquire()  # for a record that a killed job has left torn
        lock.release()
        damaged = f"the study {path} is damaged"
        self._reading = functools.partial(malformed, damaged, ": take a good copy, or give another --study")
        with self._reading():  # Optuna raises errors of any type
            storage = JournalStorage(JournalFileBackend(path, cast(Any, lock)))
            self._study = optuna.create_study(
                storage=storage, study_name="pg_mpi", direction="maximize", pruner=pruner, load_if_exists=True
            )
        self._claim: IO[str] | None = None
        self._trial: Trial | None = None

    def check_same(self, settings: dict[str, Any]) -> None:
        """Raise ``UsageError`` if the study was begun with other ``settings``, a JSON-able dict; else store them."""
        with self._reading():
            known = self._study.user_attrs.get("settings")
        if known is None:
            self._study.set_user_attr("settings", settings)
        elif known != settings:
            known = known if isinstance(known, dict) else {}
            names = ", ".join(sorted(name for name in settings if known.get(name) != settings[name]))
            raise UsageError(
                f"the study in {self.folder} was begun with other settings ({names}): give another --study"
            )

    def next_task(self) -> Task | None:
        """Claim an unfinished trial that no group plays, or a new one; return its ``Task``, or None without any."""
        for slot in range(self._trials):
            folder = os.path.join(self.folder, f"{slot:04d}")
            make_folder(folder)
            claim = take_lock(folder, "claim")
            if claim is None:
                continue
            found = self._of_slot().get(slot)
            if found is None or not found.state.is_finished():
                self._claim = claim
                resumed = found and self._optuna.trial.Trial(self._study, found._trial_id)
                self._trial = resumed or self._ask(slot)
                return Task(slot, dict(self._trial.params), folder)
            claim.close()
        return None

    def unfinished(self) -> int:
        """Number of trials that have begun and not ended, in any job."""
        with self._reading():
            return sum(not trial.state.is_finished() for trial in self._of_slot().values())

    def _ask(self, slot: int) -> "Trial":
        """Create a trial for a slot. Each slot has its own random stream, so that groups propose different settings."""
        seed = int(stream(self._seed, TUNE, slot).integers(2**32))
        self._study.sampler = self._optuna.samplers.TPESampler(seed=seed)
        trial = self._study.ask({name: _distribution(options) for name, options in self.dimensions.items()})
        trial.set_user_attr("slot", slot)
        return trial

    def _of_slot(self) -> "dict[int, FrozenTrial]":
        """Trials by slot. A job killed in ``_ask`` leaves one without."""
        trials = self._study.get_trials(deepcopy=False)
        return {trial.user_attrs["slot"]: trial for trial in trials if "slot" in trial.user_attrs}

    def report(self, part: int, score: float) -> bool:
        """Report the score after ``part`` of ``PARTS`` of the budget; return whether to prune the trial."""
        assert self._trial
        self._trial.report(score, part)
        return self._trial.should_prune()

    def tell(self, state: str, score: float | None = None, why: str = "") -> None:
        """Record how the trial ended (complete, pruned or failed) and release its slot."""
        assert self._trial and self._claim
        kind = next(known for known in self._optuna.trial.TrialState if STATES.get(known.name) == state)
        self._trial.set_user_attr("why", why)
        self._study.tell(self._trial, score if state == "complete" else None, state=kind)
        self._claim.close()

    def rows(self) -> list[Row]:
        """A ``Row`` for each slot that has a trial."""
        with self._reading():
            return [_row(slot, trial) for slot, trial in sorted(self._of_slot().items())]


def _distribution(options: Options) -> "BaseDistribution":
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if "choices" in options:
        return CategoricalDistribution(**options)
    whole = isinstance(options["low"], int) and isinstance(options["high"], int)
    return IntDistribution(**options) if whole else FloatDistribution(**options)


def _row(slot: int, trial: "FrozenTrial") -> Row:
    values = trial.intermediate_values
    last = values[max(values)] if values else None
    state = STATES.get(trial.state.name, "running")
    score = trial.value if state == "complete" else last
    return Row(slot, state, score, dict(trial.params), trial.user_attrs.get("why", ""))


def folder_of(path: str) -> str:
    """Folder of a study's trials."""
    return path.removesuffix(".journal") + ".trials"
