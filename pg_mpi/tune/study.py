"""The study: which settings come next, and how each trial fared. The only door to Optuna; leaders of groups only.

It lives in a journal file, which any number of jobs may append to at once. Trials have numbers of their own here,
*slots* 0, 1, 2 ..., each with a folder and a lock in it that its group holds while it plays: a slot whose lock is free
and whose trial is not over was left behind by a job that was killed, and whoever takes the lock goes on with it.
"""

import dataclasses
import os

from pg_mpi.config.errors import UsageError
from pg_mpi.config.random_streams import TUNE, stream
from pg_mpi.files.run_folder import RunFolder, take_lock

RUNGS = 4  # a trial may be pruned after 1/8, 1/4 and 1/2 of its budget
PARTS = 2 ** (RUNGS - 1)


def check():
    """Raise ``UsageError`` where Optuna is missing."""
    try:
        import optuna  # noqa: F401
    except ImportError:
        raise UsageError("tuning needs an extra package: pip install 'pg_mpi[tune]'") from None


@dataclasses.dataclass
class Task:
    """A trial to play: its slot, the settings proposed for it, and its run folder."""

    slot: int
    params: dict
    folder: str


@dataclasses.dataclass(frozen=True)
class Row:
    """What is known of a trial: ``state`` is running, complete, pruned or failed; ``score`` its last mean, or None."""

    slot: int
    state: str
    score: float | None
    params: dict
    why: str


class Study:
    """A study in its journal file.

    Args:
        path: of the journal. The trials' folders are in ``path`` with .trials for .journal.
        dimensions: list of ``Dimension``.
        trials: how many there are to be, over all jobs.
        seed: of what is proposed.
    """

    def __init__(self, path, dimensions, trials, seed):
        import optuna
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend

        self._optuna, self.dimensions, self._trials, self._seed = optuna, dimensions, trials, seed
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self.folder = folder_of(path)
        pruner = optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=2)
        storage = JournalStorage(JournalFileBackend(os.path.abspath(path)))  # its lock is a link, and relative to it
        self._study = optuna.create_study(
            storage=storage, study_name="pg_mpi", direction="maximize", pruner=pruner, load_if_exists=True
        )
        self._claim = self._trial = None

    def check_same(self, settings):
        """Raise ``UsageError`` if the study has trials of other ``settings``, a JSON-able dict; else note these."""
        known = self._study.user_attrs.get("settings")
        if known is None:
            self._study.set_user_attr("settings", settings)
        elif known != settings:
            names = ", ".join(sorted(name for name in settings if known.get(name) != settings[name]))
            raise UsageError(
                f"the study in {self.folder} was begun with other settings ({names}): give another --study"
            )

    def next_task(self):
        """A trial that nobody plays: one left behind, or a new one; None if there is none. It is this group's now."""
        for slot in range(self._trials):
            folder = os.path.join(self.folder, f"{slot:04d}")
            claim = take_lock(RunFolder(folder).make("."), "claim")
            if claim is None:
                continue
            found = self._of_slot().get(slot)
            if found is None or not found.state.is_finished():
                self._claim = claim
                going_on = found and self._optuna.trial.Trial(self._study, found._trial_id)
                self._trial = going_on or self._ask(slot)
                return Task(slot, dict(self._trial.params), folder)
            claim.close()
        return None

    def _ask(self, slot):
        """A new trial for a slot. Its sampler has a stream of its own, or all groups would begin alike."""
        seed = int(stream(self._seed, TUNE, slot).integers(2**32))
        self._study.sampler = self._optuna.samplers.TPESampler(seed=seed)
        trial = self._study.ask()
        trial.set_user_attr("slot", slot)
        for dimension in self.dimensions:
            dimension.suggest(trial)
        return trial

    def _of_slot(self):
        """The trials by slot; of several for one, as a job leaves that is killed in ``_ask``, the newest."""
        names = {dimension.name for dimension in self.dimensions}
        trials = self._study.get_trials(deepcopy=False)
        whole = [trial for trial in trials if "slot" in trial.user_attrs and names <= set(trial.params)]
        return {trial.user_attrs["slot"]: trial for trial in whole}

    def report(self, part, score):
        """Say how the trial fares after ``part`` of ``PARTS`` of its budget; whether it is to be pruned."""
        self._trial.report(score, part)
        return self._trial.should_prune()

    def tell(self, state, score=None, why=""):
        """How the trial ended: complete, pruned or failed; it is nobody's any more."""
        states = self._optuna.trial.TrialState
        kind = {"complete": states.COMPLETE, "pruned": states.PRUNED, "failed": states.FAIL}[state]
        self._trial.set_user_attr("why", why)
        self._study.tell(self._trial, score if state == "complete" else None, state=kind)
        self._claim.close()

    def rows(self):
        """A ``Row`` for each slot that has a trial."""
        names = {"COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed"}
        found = []
        for slot, trial in sorted(self._of_slot().items()):
            values = trial.intermediate_values
            last = values[max(values)] if values else None
            score = trial.value if trial.state.name == "COMPLETE" else last
            state = names.get(trial.state.name, "running")
            found.append(Row(slot, state, score, dict(trial.params), trial.user_attrs.get("why", "")))
        return found


def folder_of(path):
    """Where a study's trials are."""
    return path.removesuffix(".journal") + ".trials"
