"""Convert a run's metrics to the data of the figures: thinned, smoothed, as shares. Pure functions."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pg_mpi.files.checkpoint_folder import NAME
from pg_mpi.report.read import Run
from pg_mpi.report.theme import PHASES

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

POINTS = 500  # maximum for a learning curve
BINS = 80  # maximum for smoothed curves
SMALLEST = 0.005  # share of the time; smaller phases are counted as "other"


def learning(run: Run) -> tuple[Floats, ...]:
    """(seconds, score, half width of its interval), each shape (points,), of at most ``POINTS`` updates.

    The score is the mean of the last 100 games; the half width is NaN where it is missing.
    """
    known = np.flatnonzero(~np.isnan(run.columns["return_mean"]))
    wall = run.columns["wall_s"][known]
    ends: Indices | list[int] = np.append(_starts(wall, POINTS)[1:], len(known)) - 1 if len(known) else []
    chosen = known[ends]
    return tuple(run.columns[name][chosen] for name in ("wall_s", "return_mean", "return_ci95"))


def speed(run: Run) -> tuple[Floats, Floats]:
    """(seconds, steps/s) in bins of equal time, each shape (bins,)."""
    spent, starts, when = _bins(run)
    return when, np.add.reduceat(run.columns["sps"] * spent, starts) / np.add.reduceat(spent, starts)


def mean_speed(run: Run) -> float:
    """Steps/s over all updates."""
    spent = seconds(run)
    return float((run.columns["sps"] * spent).sum() / spent.sum())


def shares(run: Run) -> tuple[Floats, dict[str, Floats]]:
    """(seconds, {phase: share of the wall time}) in bins of equal time; the shares of a bin add up to 1.

    Small phases, and time outside of all phases, are ``other``.
    """
    spent, starts, when = _bins(run)
    whole, total = np.add.reduceat(spent, starts), spent.sum()
    large = [name for name in PHASES if name in run.columns and run.columns[name].sum() >= SMALLEST * total]
    found = {name: np.add.reduceat(run.columns[name], starts) / whole for name in large}
    claimed = np.maximum(sum(found.values(), np.zeros(len(whole))), 1.0)  # phases may slightly exceed the total
    found = {name: share / claimed for name, share in found.items()}
    return when, found | {"other": 1 - sum(found.values(), np.zeros(len(whole)))}


def mean_shares(run: Run) -> dict[str, float]:
    """Each phase's share of all updates' wall time."""
    total = seconds(run).sum()
    return {name: float(run.columns[name].sum() / total) for name in PHASES if name in run.columns}


def waits(run: Run) -> Floats | None:
    """Shares of the last start's time that ranks waited, one for each of its ``Waits.seconds``; None if unknown."""
    waits = run.beside.waits
    if not waits:
        return None
    its = (run.columns["restarts"] == waits.start) & (run.columns["update"] <= waits.update)
    total = seconds(run)[its].sum()
    return np.minimum(np.array(waits.seconds) / total, 1.0) if total else None


def evaluated(run: Run) -> tuple[float, ...] | None:
    """(seconds when its checkpoint was saved, mean, low, high) of the last evaluation; None if unknown."""
    judged: Any = run.beside.evaluation
    step = NAME.fullmatch(str((judged or {}).get("checkpoint")))
    if not step:
        return None
    saved = int(np.searchsorted(run.columns["env_steps"], int(step[1])))
    if saved == len(run.columns["env_steps"]):
        return None  # the metrics were truncated since
    return float(run.columns["wall_s"][saved]), float(judged["mean"]), *map(float, judged["ci95"])


def seconds(run: Run) -> Floats:
    """Wall seconds of each update, shape (updates,)."""
    return 1 / run.columns["updates_per_s"]


def _bins(run: Run) -> tuple[Floats, Indices, Floats]:
    """Return (seconds of each update, first update of each bin, middle of each bin in seconds)."""
    spent, wall = seconds(run), run.columns["wall_s"]
    starts = _starts(wall, min(BINS, max(1, len(wall) // 3)))
    ends = wall[np.append(starts[1:], len(wall)) - 1]
    return spent, starts, (np.maximum(wall[starts] - spent[starts], 0) + ends) / 2


def _starts(wall: Floats, most: int) -> Indices:
    """Return the first update of each of at most ``most`` equal time intervals; ``wall`` must not decrease."""
    inner = np.linspace(wall[0], wall[-1], most + 1)[1:-1]
    return np.flatnonzero(np.diff(np.searchsorted(inner, wall, side="left"), prepend=-1))
