"""Counters of a run: steps, games and the last 100 scores. Equal on all ranks."""

import math
import statistics
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

WINDOW = 100


class Counters:
    """Counts of the run so far, over all ranks.

    Attributes:
        update, env_steps, games, emulator_errors: counts.
        anneal_steps: the steps by which the annealing has progressed.
        recent: the last 100 games as (score, steps), oldest first.
    """

    def __init__(self) -> None:
        self.update = self.env_steps = 0
        self.anneal_steps = 0.0
        self.games = 0
        self.recent: deque[tuple[float, ...]] = deque(maxlen=WINDOW)
        self.emulator_errors = 0

    def add(self, env_steps: int, games: int, recent: Iterable[Sequence[float]], errors: int, annealed: float) -> None:
        """Count one update: its agent steps, its finished games, the newest of them, and its emulator failures.

        ``annealed``: the steps by which the annealing progresses.
        """
        self.update += 1
        self.env_steps += env_steps
        self.anneal_steps += annealed
        self.games += games
        self.emulator_errors += errors
        self.recent.extend((score, int(steps)) for score, steps in recent)

    @property
    def return_mean(self) -> float | None:
        """Mean score of the recent games, or None before the first."""
        return statistics.fmean(score for score, _ in self.recent) if self.recent else None

    @property
    def return_ci95(self) -> float | None:
        """Half the 95 % interval of ``return_mean`` (normal approximation), or None before the second game.

        1.96 s / sqrt(n) for n recent games of sample deviation s.
        """
        if len(self.recent) < 2:
            return None
        return 1.96 * statistics.stdev(score for score, _ in self.recent) / math.sqrt(len(self.recent))

    def reached(self, target: float | None) -> bool:
        """True if the last 100 games average at least ``target``."""
        return target is not None and len(self.recent) == WINDOW and cast(float, self.return_mean) >= target

    def metrics(self) -> dict[str, Any]:
        """The counters as metrics."""
        return {
            "games": self.games,
            "return_mean": self.return_mean,
            "return_ci95": self.return_ci95,
            "return_last": self.recent[-1][0] if self.recent else None,
            "length_mean": statistics.fmean(steps for _, steps in self.recent) if self.recent else None,
            "emulator_errors": self.emulator_errors,
        }

    def state(self) -> dict[str, Any]:
        """State for a checkpoint: a JSON-able dict."""
        return {**vars(self), "recent": list(self.recent)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from ``state``. Raises ValueError, KeyError or TypeError for a malformed one."""
        for name in ("update", "env_steps", "games", "emulator_errors"):
            setattr(self, name, count(state[name]))
        self.anneal_steps = float(number(state.get("anneal_steps", self.env_steps)))  # earlier checkpoints lack it
        self.recent = deque(((number(score), count(steps)) for score, steps in state["recent"]), maxlen=WINDOW)


def count(value: Any) -> int:
    """``value`` if it is a count, else a ``ValueError``."""
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is not a count")
    return value


def number(value: Any) -> float:
    """``value`` if it is a finite number, else a ``ValueError``."""
    if type(value) not in (int, float) or not math.isfinite(value):
        raise ValueError(f"{value!r} is not a finite number")
    return cast(float, value)
