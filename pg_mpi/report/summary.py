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
    return f"finished: {run.beside.ended}" if run.beside.ended else "not finished"


def tiles(run: Run) -> Markup:
    """Main numbers of a single run."""
    ranks, games = int(run.columns["ranks"][-1]), int(run.columns["games"][-1])
    numbers = [
        (captions.score(run), f"mean of the last {min(100, games)} games, 95 % interval"),
        (clock(run.columns["wall_s"][-1]), f"trained, {tables.shorten(_status(run))}"),
        (f"{series.mean_speed(run):,.0f}", "steps/s over the run"),
        (f"{ranks:,}", "rank" if ranks == 1 else "ranks"),
        (captions.short(run.columns["env_steps"][-1]), f"steps, {games:,} games"),
    ]
    shown = (element("div", element("b", value), element("span", label), class_="tile") for value, label in numbers)
    return element("div", *shown, class_="tiles")


def summary(runs: list[Run]) -> Markup:
    """Table with a row for each run."""
    rows = []
    for number, run in enumerate(runs):
        judged = run.beside.evaluation
        rows.append([
            key(number, run.name), captions.score(run), clock(run.columns["wall_s"][-1]),
            f"{series.mean_speed(run):,.0f}", f"{int(run.columns['ranks'][-1]):,}",
            captions.short(run.columns["env_steps"][-1]), f"{int(run.columns['games'][-1]):,}",
            captions.judged(judged) if judged else tables.UNSET, cell(tables.shorten(_status(run)), class_="text"),
        ])  # fmt: skip
    names = ["run", "last 100 games", "trained", "steps/s", "ranks", "steps", "games", "evaluation", "status"]
    return element("section", table(names, rows))
