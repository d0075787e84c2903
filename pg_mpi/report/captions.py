"""Titles of figures, which state in a sentence what a figure shows."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pg_mpi.config.presets import is_atari
from pg_mpi.files.metrics_file import clock
from pg_mpi.report import series, tables
from pg_mpi.report.read import Run
from pg_mpi.report.run_files import is_number

PLAY, LEARNING = ("emulator", "reset", "features", "inference"), ("gradient", "optimizer")


def signed(score: float, digits: int = 1) -> str:
    """Format a score with its sign, using the minus character."""
    return f"{score:+.{digits}f}".replace("-", "\N{MINUS SIGN}")


def score(run: Run) -> str:
    """Format the last mean score with its interval; ``no game yet`` without one."""
    mean, half = _mean(run), run.columns["return_ci95"][-1]
    if np.isnan(mean):
        return "no game yet"
    return signed(mean) + ("" if np.isnan(half) else f" \N{PLUS-MINUS SIGN} {half:.1f}")


def learned(runs: list[Run]) -> str:
    """Title of the learning curve."""
    if len(runs) > 1:
        known = sorted((run for run in runs if not np.isnan(_mean(run))), key=_mean, reverse=True)
        order = ", ".join(f"{run.name} {signed(_mean(run))}" for run in known[:4])
        return f"Highest at its end: {order}" if known else "No run has finished a game"
    (run,) = runs
    _, scores, _ = series.learning(run)
    if not len(scores):
        return "No game was finished yet"
    return f"From {signed(scores[0])} to {signed(scores[-1])} in {spoken(run.columns['wall_s'][-1])}"


def fast(runs: list[Run]) -> str:
    """Title of the speed figure."""
    if len(runs) > 1:
        quickest = sorted(runs, key=series.mean_speed, reverse=True)
        return "Steps/s: " + ", ".join(f"{run.name} {series.mean_speed(run):,.0f}" for run in quickest[:4])
    (run,) = runs
    mean, ranks = series.mean_speed(run), int(run.columns["ranks"][-1])
    each = f", {mean / ranks:,.0f} on each of {ranks} ranks" if ranks > 1 else ""
    return f"{mean:,.0f} steps/s{each}"


def spent(run: Run) -> str:
    """Title of the phases figure."""
    share = series.mean_shares(run)
    play, learning = (sum(share.get(name, 0) for name in names) for names in (PLAY, LEARNING))
    return (
        f"{play:.0%} play, {learning:.0%} learning, {share.get('allreduce', 0):.0%} exchange, "
        f"{share.get('wait', 0):.0%} waiting"
    )


def waited(shares: NDArray[np.float64], by_rank: bool, least: float) -> str:
    """Title of the waiting figure; ``shares`` as returned by ``series.waits``, the others as in ``Waits``."""
    if np.ptp(shares) < 0.005:
        return f"All ranks wait alike, {shares.mean():.1%} of the time"
    most = f"Rank {shares.argmax()} waits most" if by_rank else "The rank that waits most does so"
    return f"{most}, {shares.max():.1%} of the time; rank {least:.0f} least, {shares.min():.1%}"


def judged(evaluation: dict[str, Any]) -> str:
    """Format the mean of an evaluation with its interval."""
    low, high = sorted(evaluation["ci95"])
    return f"{signed(evaluation['mean'], 2)} [{signed(low, 2)}, {signed(high, 2)}]"


def protocol(evaluation: dict[str, Any]) -> str:
    """Describe how an evaluation was played."""
    checkpoint, sticky, seed = (tables.shorten(evaluation.get(name)) for name in ("checkpoint", "sticky", "seed"))
    sticks = f"sticky actions {sticky}, " if is_atari(str(evaluation.get("env_id"))) else ""
    median = evaluation.get("median")
    middle = signed(median) if is_number(median) else tables.UNSET
    actions = "greedy" if evaluation.get("greedy") else "sampled"
    return (
        f"Full games from {checkpoint}: {sticks}{actions} actions, seed {seed}; median {middle}. "
        "Brackets: 95 % bootstrap interval of the mean."
    )


def short(number: float) -> str:
    """Format a large count with k, M or G."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g} {letter}"
    return f"{number:.0f}"


def spoken(seconds: float) -> str:
    """Format a duration for a sentence."""
    if seconds < 100:
        return f"{int(seconds)} seconds"
    return f"{seconds / 60:.1f} minutes" if seconds < 6000 else f"{clock(seconds)} hours"


def _mean(run: Run) -> float:
    return float(run.columns["return_mean"][-1])
