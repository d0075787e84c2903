"""Cards of the page: figures with a title that states the result."""

import base64

from pg_mpi.report import captions, figures, run_files, series, tables
from pg_mpi.report.markup import Markup, element
from pg_mpi.report.read import Run
from pg_mpi.report.theme import RUNS, dash

MOST_VIDEO = 8_000_000  # bytes; of a larger one the page shows the path


def key(number: int, name: str) -> Markup:
    """A run's name with its line style."""
    line = element("i", class_=f"line run{number % RUNS}", style=f"border-top-style:{dash(number)}")
    return element("span", line, name, class_="key")


def _figure(
    kind: str, title: str, what: str, picture: Markup | None, below: Markup | None = None, above: Markup | None = None
) -> Markup:
    """A card: ``title`` states the result, ``what`` describes the drawing."""
    return element("figure", above, element("h2", title), element("p", what, class_="what"), picture, below, id=kind)


def _keys(runs: list[Run]) -> Markup | None:
    """Legend of the runs; None for a single run."""
    if len(runs) == 1:
        return None
    return element("p", *(key(*each) for each in enumerate(run.name for run in runs)), class_="keys")


def learning(runs: list[Run]) -> Markup:
    """Card of the learning curves, over the whole width."""
    what = "Mean score of the last 100 games while learning, with its 95 % interval."
    if any(series.evaluated(run) for run in runs):
        what += " Diamond: the last evaluation, with its interval."
    title = captions.learned(runs)
    return _figure("learning", title, what, figures.learning(runs, title), _keys(runs))


def _speed(runs: list[Run]) -> Markup:
    title, what = captions.fast(runs), "Agent steps a second over all ranks, smoothed."
    return _figure("speed", title, what, figures.speed(runs, title), _keys(runs))


def grids(runs: list[Run]) -> list[Markup]:
    """Cards in two columns: all cards of a single run; for several runs phases and waiting, a row for each run."""
    speed, shown, judged = _speed(runs), [], []
    for number, run in enumerate(runs):
        whose = element("p", key(number, run.name), class_="whose") if len(runs) > 1 else None
        shown += [_phases(number, run, whose), _waits(number, run, whose)]
        judged += _evaluation(number, run, whose)
    if len(runs) == 1:
        return [element("div", speed, *shown, *judged, class_="two")]
    return [speed, *(element("div", *cards, class_="two") for cards in (shown, judged) if cards)]


def _phases(number: int, run: Run, whose: Markup | None) -> Markup:
    title = captions.spent(run)
    mean, (_, shown) = series.mean_shares(run), series.shares(run)
    mean["other"] = max(0.0, 1 - sum(mean[name] for name in shown if name != "other"))
    entries = (
        element("span", element("i", class_=f"box phase-{name}"), f"{name} {mean[name]:.1%}", class_="key")
        for name in reversed(shown)
    )
    what = "Where the wall time goes: shares of each phase, mean of ranks."
    picture = figures.phases(run, f"{run.name}: {title}")
    keys = element("p", *entries, class_="keys")
    return _figure(f"phases{number}", title, what, picture, keys, whose)


def _waits(number: int, run: Run, whose: Markup | None) -> Markup:
    shares, waits = series.waits(run), run.beside.waits
    name, left_out = f"waits{number}", "Waiting by rank is left out"
    if run.columns["ranks"][-1] == 1:
        return _figure(name, left_out, "A single rank does not wait.", None, above=whose)
    if shares is None or waits is None:
        why = "ranks.json, which the trainer writes at each checkpoint, is not in the run folder or is of another run: "
        why += "continue the run to its next checkpoint and report again."
        return _figure(name, left_out, why, None, above=whose)
    what = "Time each rank spent waiting for others since the last start; dashed: their mean. The one that waits least "
    what += "is the one that the others wait for."
    title = captions.waited(shares, waits.by_rank, waits.least)
    picture = figures.waits(shares, waits.by_rank, f"{run.name}: {title}")
    return _figure(name, title, what, picture, above=whose)


def _evaluation(number: int, run: Run, whose: Markup | None) -> list[Markup]:
    judged = run.beside.evaluation
    if not judged:
        return []
    title = f"Evaluation: {captions.judged(judged)} over {tables.shorten(judged['games'])} games"
    film = _video(run.beside.video)
    return [_figure(f"evaluation{number}", title, captions.protocol(judged), film, above=whose)]


def _video(path: str | None) -> Markup | None:
    """Embed a small video; show the path of a large one."""
    if path is None:
        return None
    found = run_files.embeddable(path, MOST_VIDEO)
    if not found:
        return element("p", "Its video is too large for the page: ", element("code", path), class_="video")
    kind, content = found
    source = f"data:{kind};base64,{base64.b64encode(content).decode()}"
    if kind == "image/gif":
        return element("p", Markup(f'<img alt="a game" src="{source}">'), class_="video")
    film = element("video", controls="", loop="", muted="", playsinline="", preload="auto", src=source)
    return element("p", film, class_="video")
