"""Draw the figures of the page."""

import base64
import io
from collections.abc import Callable
from typing import Any

import numpy as np

from pg_mpi.config.array_types import Doubles
from pg_mpi.files.figure_file import axes_of
from pg_mpi.report.markup import Markup, element, printable
from pg_mpi.report.read import Run

POINTS = 500  # maximum for a curve
LONGEST = 30  # characters of a run's name in a legend
STYLES = ("-", "--", ":")  # of the first ten runs, of the next ten, ...
BINS = 80  # maximum for a smoothed curve

#: A colour for each phase: play in greens, learning in blues, other ranks in reds.
PHASES = {
    "emulator": "#2d6a4f",
    "reset": "#74a892",
    "features": "#52b788",
    "inference": "#95d5b2",
    "gradient": "#1d4e89",
    "optimizer": "#6ea8dc",
    "allreduce": "#f4a261",
    "wait": "#d1495b",
    "record": "#b8a1d9",
    "other": "#9aa1a9",
}


def learning(runs: list[Run]) -> Markup:
    """Draw score against time with its interval, a line for each run."""

    def draw(axes: Any) -> None:
        for number, run in enumerate(runs):
            updates = len(run.columns["wall_s"])
            shown = np.linspace(0, updates - 1, min(updates, POINTS)).astype(int)
            minutes, mean, half = (run.columns[name][shown] for name in ("wall_s", "return_mean", "return_ci95"))
            line = _draw_line(axes, minutes / 60, mean, number, run)
            axes.fill_between(minutes / 60, mean - half, mean + half, color=line.get_color(), alpha=0.2, linewidth=0)
        axes.set(xlabel="minutes", ylabel="score", xlim=(0, None))

    what = "Mean score of the last 100 games while learning, with its 95 % interval."
    return _figure("Learning", what, draw, len(runs))


def speed(runs: list[Run]) -> Markup:
    """Draw steps/s against time, a line for each run."""

    def draw(axes: Any) -> None:
        for number, run in enumerate(runs):
            minutes, (sps,) = means(run, ["sps"])
            _draw_line(axes, minutes, sps, number, run)
        axes.set(xlabel="minutes", ylabel="steps/s, all ranks", xlim=(0, None), ylim=(0, None))

    return _figure("Speed", "Agent steps a second over all ranks, smoothed.", draw, len(runs))


def phases(run: Run) -> Markup:
    """Draw the shares of the time against time, stacked."""
    total = run.columns["seconds"].sum()

    def draw(axes: Any) -> None:
        names = [name for name in PHASES if run.columns[name].any()]
        minutes, shares = means(run, names, per_second=True)
        labels = [f"{name} {run.columns[name].sum() / total:.1%}" for name in names]
        axes.stackplot(np.append(0, minutes), np.pad(shares, ((0, 0), (1, 0)), "edge"), labels=labels, linewidth=0,
                       colors=[PHASES[name] for name in names])  # fmt: skip
        axes.set(xlabel="minutes", ylabel="share of the time", xlim=(0, minutes[-1]), ylim=(0, 1))

    return _figure(f"Phases of {run.name}", "Where the time goes: shares of each phase, mean of ranks.", draw)


def waits(run: Run) -> Markup | None:
    """Draw the seconds that ranks waited: a bar for each rank, or quantiles. None if unknown, or for one rank."""
    if len(run.waits) < 2:
        return None

    def draw(axes: Any) -> None:
        if run.waits_by_rank:
            axes.bar(range(len(run.waits)), run.waits, color=PHASES["wait"])
            axes.locator_params("x", integer=True, min_n_ticks=1)
            axes.set(xlabel="rank")
        else:
            axes.fill_between(np.linspace(0, 100, len(run.waits)), run.waits, color=PHASES["wait"], linewidth=0)
            axes.set(xlabel="% of the ranks, from the one that waits least", xlim=(0, 100))
        axes.set(ylabel="seconds", ylim=(0, None))

    what = "Time that each rank waited for others from the last start to its last checkpoint. The others wait for the "
    what += "rank that waits least."
    return _figure(f"Waiting in {run.name}", what, draw)


def means(run: Run, names: list[str], per_second: bool = False) -> tuple[Doubles, Doubles]:
    """Return (minutes at the end of each bin, the means of columns or their sums per second, (names, bins)).

    A bin is as many updates as the others; a mean is over the time, not the updates.
    """
    seconds = run.columns["seconds"]
    starts = np.linspace(0, len(seconds), min(BINS, len(seconds)), endpoint=False).astype(int)
    ends = np.append(starts[1:], len(seconds)) - 1
    sums = [np.add.reduceat(run.columns[name] * (1 if per_second else seconds), starts) for name in names]
    return run.columns["wall_s"][ends] / 60, np.array(sums) / np.add.reduceat(seconds, starts)


def _draw_line(axes: Any, minutes: Doubles, values: Doubles, number: int, run: Run) -> Any:
    """Draw the line of run ``number``, with markers if it has fewer than three points, and return it."""
    name = printable(run.name)
    name = name if len(name) <= LONGEST else "\N{HORIZONTAL ELLIPSIS}" + name[-LONGEST:]
    # matplotlib hides names that begin with _ and reads $...$ as a formula
    label, style = f" {name}".replace("$", r"\$"), STYLES[number // 10 % len(STYLES)]
    return axes.plot(minutes, values, style, label=label, marker="." if np.isfinite(values).sum() < 3 else None)[0]


def _figure(title: str, what: str, draw: Callable[[Any], None], entries: int = 0) -> Markup:
    """Return ``draw(axes)`` as an image with its title and a description. ``entries``: of its legend."""
    image = io.BytesIO()
    with axes_of(image, size=(9, max(3.4, 0.25 * entries)), kind="svg") as axes:
        draw(axes)
        axes.xaxis.set_major_formatter("{x:,g}")
        if len(axes.get_legend_handles_labels()[1]) > 1:
            axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1), reverse=not axes.lines)
    source = f"data:image/svg+xml;base64,{base64.b64encode(image.getvalue()).decode()}"
    picture = element("img", alt=title, src=source)
    return element("figure", element("h2", title), element("p", what), picture)
