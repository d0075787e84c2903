"""Draw figures as inline SVG, coloured by the theme. The only module of the report that imports matplotlib."""

import hashlib
import io
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from pg_mpi.report import series
from pg_mpi.report.markup import Markup, element, join
from pg_mpi.report.read import Run
from pg_mpi.report.theme import LIGHT, PHASES, run_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Paint = Callable[["Axes"], None]

WIDE, HALF = (11.2, 3.7), (5.0, 2.7)  # inches of matplotlib; the page shows about 90 pixels per inch


def learning(runs: list[Run], label: str) -> Markup:
    """Draw score against time with its interval, a line for each run; a diamond marks its last evaluation."""

    scale, unit = _unit(runs)

    def paint(axes: "Axes") -> None:
        for number, run in enumerate(runs):
            colour, dash = run_style(number)
            wall, mean, half = series.learning(run)
            axes.fill_between(wall / scale, mean - half, mean + half, color=colour, alpha=0.2, linewidth=0)
            _draw_line(axes, wall / scale, mean, colour, dash)
            if place := series.evaluated(run):
                when, middle, low, high = place
                bar = [[max(middle - low, 0)], [max(high - middle, 0)]]
                axes.errorbar(when / scale, middle, bar, fmt="D", color=colour, ecolor=LIGHT["ink"], markersize=5,
                              markeredgecolor=LIGHT["ink"], elinewidth=1, capsize=3, zorder=4)  # fmt: skip
        axes.set(xlabel=unit, ylabel="score", xlim=(0, None))

    return _pictures(paint, label)


def speed(runs: list[Run], label: str) -> Markup:
    """Draw steps/s against time, a line for each run."""

    scale, unit = _unit(runs)

    def paint(axes: "Axes") -> None:
        for number, run in enumerate(runs):
            when, sps = series.speed(run)
            _draw_line(axes, when / scale, sps, *run_style(number))
        axes.set(xlabel=unit, ylabel="steps/s, all ranks", xlim=(0, None), ylim=(0, None))
        axes.yaxis.set_major_formatter("{x:,.0f}")

    return _picture(paint, label) if len(runs) == 1 else _pictures(paint, label)


def phases(run: Run, label: str) -> Markup:
    """Draw the shares of the wall time against time, stacked."""

    scale, unit = _unit([run])

    def paint(axes: "Axes") -> None:
        when, shares = series.shares(run)
        wall = run.columns["wall_s"]
        ends = np.concatenate([[max(wall[0] - series.seconds(run)[0], 0)], when, wall[-1:]]) / scale
        heights = [np.pad(share, 1, mode="edge") for share in shares.values()]
        axes.stackplot(ends, heights, colors=[PHASES[name] for name in shares], linewidth=0)
        axes.set(xlabel=unit, ylabel="share of the time", xlim=(0, ends[-1]), ylim=(0, 1))
        axes.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")

    return _picture(paint, label)


def waits(shares: NDArray[np.float64], by_rank: bool, label: str) -> Markup:
    """Draw the waiting time: a bar for each rank, or a curve of quantiles."""

    def paint(axes: "Axes") -> None:
        axes.axhline(shares.mean(), color=LIGHT["muted"], linewidth=1, linestyle=(0, (4, 3)), zorder=3)
        if by_rank:
            axes.bar(range(len(shares)), shares, 0.7 if len(shares) < 24 else 0.9, color=PHASES["wait"], linewidth=0)
            axes.set(xlabel="rank", xlim=(-0.6, len(shares) - 0.4))
            axes.locator_params("x", integer=True, min_n_ticks=1)
        else:
            axes.fill_between(np.linspace(0, 100, len(shares)), shares, color=PHASES["wait"], linewidth=0)
            axes.set(xlabel="% of the ranks, from the one that waits least", xlim=(0, 100))
        axes.set(ylabel="share of its time", ylim=(0, max(1.1 * float(shares.max()), 0.01)))
        axes.yaxis.set_major_formatter(lambda share, _: f"{100 * share:.3g}%")

    return _picture(paint, label)


def _unit(runs: list[Run]) -> tuple[int, str]:
    """Return (seconds per unit, name) of the time unit for these runs."""
    longest = max(run.columns["wall_s"][-1] for run in runs)
    return (3600, "hours") if longest > 5 * 3600 else (60, "minutes")


def _draw_line(axes: "Axes", x: NDArray[np.float64], y: NDArray[np.float64], colour: str, dash: Any) -> None:
    """Draw a run's line; with markers if it has fewer than three points."""
    axes.plot(x, y, linestyle=dash, color=colour, linewidth=1.6, marker="o" if len(x) < 3 else None)


def _pictures(paint: Paint, label: str) -> Markup:
    """Draw ``paint(axes)`` for wide and for narrow screens."""
    return join([_picture(paint, label, WIDE, "wide"), _picture(paint, label, HALF, "narrow")])


def _picture(paint: Paint, label: str, size: tuple[float, float] = HALF, kind: str | None = None) -> Markup:
    """Draw ``paint(axes)``. ``kind``: on ``wide`` or ``narrow`` screens only."""
    classes = " ".join(filter(None, ["picture", kind]))
    return element("div", Markup(_svg(paint, label, size)), class_=classes, role="img", aria_label=label)


def _svg(paint: Paint, label: str, size: tuple[float, float]) -> str:
    """Return an SVG element with text as text, a transparent background, and CSS variables for the theme's colours.

    Ignores the user's matplotlibrc.
    """
    import matplotlib
    from matplotlib.figure import Figure

    salt = hashlib.sha256(f"{label}{size}".encode("utf-8", "replace")).hexdigest()  # unique ids
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update({
            "svg.fonttype": "none", "svg.hashsalt": salt, "font.size": 10, "text.color": LIGHT["ink"],
            "axes.labelcolor": LIGHT["muted"], "axes.edgecolor": LIGHT["line"], "xtick.color": LIGHT["line"],
            "ytick.color": LIGHT["line"], "xtick.labelcolor": LIGHT["muted"], "ytick.labelcolor": LIGHT["muted"],
            "axes.grid": True, "grid.color": LIGHT["line"], "grid.linewidth": 0.7, "axes.axisbelow": True,
        })  # fmt: skip
        figure = Figure(size, layout="constrained")
        axes = figure.add_subplot()
        paint(axes)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.tick_params(length=0, pad=5)
        axes.xaxis.set_major_formatter("{x:g}")
        stream = io.StringIO()
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(stream, format="svg", transparent=True, metadata=nothing)
    svg = _lean(stream.getvalue())
    for name, colour in LIGHT.items():
        svg = svg.replace(colour, f"var(--{name})")
    return svg


def _lean(svg: str) -> str:
    """Strip an SVG: remove prolog, namespaces, metadata, global style and unused ids, and shorten numbers."""
    svg = svg[svg.index("<svg") :]
    box = cast(re.Match[str], re.search(r'viewBox="([-\d. ]+)"', svg))[1]
    svg = f'<svg viewBox="{box}" aria-hidden="true">' + svg[svg.index(">") + 1 :]
    svg = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", svg, flags=re.DOTALL)
    used = set(re.findall(r"#([\w-]+)", svg))
    svg = re.sub(r' id="([^"]*)"', lambda found: found[0] if found[1] in used else "", svg)
    svg = re.sub(r' d="[^"]*"', lambda path: re.sub(r"(\.\d)\d+", r"\1", path[0]), svg)
    return re.sub(r"\s*\n\s*", "\n", svg)
