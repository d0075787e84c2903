"""The head of the page and the main numbers of each run."""

from pg_mpi.files.metrics_file import clock
from pg_mpi.report import captions, series, tables
from pg_mpi.report.markup import Markup, cell, element, join, table
from pg_mpi.report.panels import key
from pg_mpi.report.read import Run


def head(runs: list[Run], title: str) -> Markup:
    """Title of the page, with environment, preset and seed."""
    games = join(dict.fromkeys(_what(run) for run in runs), "; ") if len(runs) < 4 else None
    return element("header", element("h1", title), element("p", games, class_="sub") if games else None)


def _what(run: Run) -> str:
    settings = run.beside.settings
    words = [tables.shorten(settings.get("env_id")) if settings else "settings unknown"]
    words += [f"{name} {tables.shorten(settings.get(name))}" for name in ("preset", "seed") if name in settings]
    return ", ".join(words)


def _status(run: Run) -> str:
    return tables.shorten(f"finished: {run.beside.ended}" if run.beside.ended else "not finished")


def _numbers(run: Run) -> list[str]:
    """Format a run's score, time, speed, ranks, steps and games."""
    wall, ranks, steps, games = (run.columns[name][-1] for name in ("wall_s", "ranks", "env_steps", "games"))
    speed = f"{series.mean_speed(run):,.0f}"
    return [captions.score(run), clock(wall), speed, f"{ranks:,.0f}", captions.short(steps), f"{games:,.0f}"]


def tiles(run: Run) -> Markup:
    """Main numbers of a single run."""
    score, trained, speed, ranks, steps, games = _numbers(run)
    numbers = [
        (score, f"mean of the last {min(100, int(run.columns['games'][-1]))} games, 95 % interval"),
        (trained, f"trained, {_status(run)}"),
        (speed, "steps/s over the run"),
        (ranks, "rank" if ranks == "1" else "ranks"),
        (steps, f"steps, {games} games"),
    ]
    shown = (element("div", element("b", value), element("span", label), class_="tile") for value, label in numbers)
    return element("div", *shown, class_="tiles")


def summary(runs: list[Run]) -> Markup:
    """Table with a row for each run."""
    rows = []
    for number, run in enumerate(runs):
        judged = captions.judged(run.beside.evaluation) if run.beside.evaluation else tables.UNSET
        rows.append([key(number, run.name), *_numbers(run), judged, cell(_status(run), class_="text")])
    names = ["run", "last 100 games", "trained", "steps/s", "ranks", "steps", "games", "evaluation", "status"]
    return element("section", table(names, rows))
