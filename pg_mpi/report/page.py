"""The report page: numbers, figures, evaluation, settings and provenance."""

import base64
import json
import math
import os
import pathlib
import time
from collections.abc import Iterable
from typing import Any

from pg_mpi import __version__
from pg_mpi.config.settings import FIELDS
from pg_mpi.files.metrics_file import clock
from pg_mpi.report import figures
from pg_mpi.report.markup import Markup, element, table
from pg_mpi.report.read import Run

#: Content security policy: no scripts, no network access and no files, whatever the page contains.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; media-src data:"
LONGEST = 400  # characters of one value
MOST_VIDEO = 8_000_000  # bytes; a larger one is left out
PROVENANCE = ("time", "command", "commit", "versions", "ranks", "mpi", "places", "job")


def make(runs: list[Run]) -> str:
    """Return the page as HTML text."""
    title = runs[0].name if len(runs) == 1 else f"{len(runs)} runs"
    settings = [_dict(run.files["config.json"].get("settings")) for run in runs]
    names = dict.fromkeys([*FIELDS, *(name for each in settings for name in each)])
    starts = [_last_start(run) for run in runs]
    body = element(
        "body",
        element("h1", title),
        *(element("p", f"{run.name}: {note}") for run in runs for note in run.notes),
        _numbers(runs),
        figures.learning(runs),
        figures.speed(runs),
        *(draw(run) for run in runs for draw in (figures.phases, figures.waits, _evaluation)),
        _compared("Settings", runs, names, settings),
        _compared("Provenance of the last start", runs, PROVENANCE, starts),
        element("p", f"Written by pg_mpi {__version__} on {time.strftime('%Y-%m-%d at %H:%M UTC', time.gmtime())}"),
    )
    head = Markup(
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    )
    style = element("style", Markup(pathlib.Path(__file__).with_name("page.css").read_text(encoding="utf-8")))
    html = element("html", element("head", head, element("title", title), style), body, lang="en")
    return f"<!doctype html>\n{html}\n"


def _numbers(runs: list[Run]) -> Markup:
    """The main numbers, a row for each run."""
    names = ["run", "mean of the last 100 games", "trained", "steps/s", "ranks", "steps", "games", "status"]
    return element("section", table(names, [_row(run) for run in runs]))


def _row(run: Run) -> list[str]:
    last = {name: column[-1] for name, column in run.columns.items()}
    seconds = run.columns["seconds"]
    speed = (run.columns["sps"] * seconds).sum() / seconds.sum()
    score = "no game yet"
    if not math.isnan(last["return_mean"]):
        interval = "" if math.isnan(last["return_ci95"]) else f" \N{PLUS-MINUS SIGN} {last['return_ci95']:.1f}"
        score = f"{last['return_mean']:+.1f}{interval}"
    counts = [f"{each:,.0f}" for each in (speed, last["ranks"], last["env_steps"], last["games"])]
    done = run.files["DONE"]
    status = f"finished: {_text(done.get('reason'))}" if done else "not finished"
    return [run.name, score, clock(last["wall_s"]), *counts, status]


def _evaluation(run: Run) -> Markup | None:
    """The last evaluation and its video; None without one."""
    facts = run.files["evaluation.json"]
    if not facts:
        return None
    names = ("checkpoint", "games", "mean", "ci95", "median", "greedy", "sticky", "seed")
    title = element("h2", f"Evaluation of {run.name}")
    return element("section", title, table(names, [[_text(facts.get(name)) for name in names]]), _video(run))


def _video(run: Run) -> Markup | None:
    """Embed the evaluation's video, which must lie in the run folder itself."""
    name = str(run.files["evaluation.json"].get("video"))
    kind = {".mp4": "video/mp4", ".gif": "image/gif"}.get(os.path.splitext(name)[1].lower())
    path = os.path.join(run.path, name)
    if not kind or os.path.basename(name) != name or os.path.islink(path):
        return None
    try:
        if os.path.getsize(path) > MOST_VIDEO:
            return element("p", f"Its video is too large for the page: {path}")
        source = f"data:{kind};base64,{base64.b64encode(pathlib.Path(path).read_bytes()).decode()}"
    except (OSError, ValueError):
        return element("p", f"Its video cannot be read: {path}")
    if kind == "image/gif":
        return element("img", alt="a game", src=source)
    return element("video", controls="", loop="", src=source)


def _compared(title: str, runs: list[Run], names: Iterable[str], values: list[dict[str, Any]]) -> Markup:
    """A table with a row for each name and a column for each run; differences are marked."""
    rows = []
    for name in names:
        texts = [_text(its.get(name)) for its in values]
        rows.append([name, *(element("mark", text) if len(set(texts)) > 1 else text for text in texts)])
    columns = table(["", *(run.name for run in runs)], rows)
    return element("section", element("details", element("summary", title), columns))


def _last_start(run: Run) -> dict[str, Any]:
    starts = run.files["config.json"].get("starts")
    return _dict(starts[-1]) if isinstance(starts, list) and starts else {}


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str:
    """Format any value as text of bounded length."""
    text = " ".join(map(_word, value if isinstance(value, list) else [value]))
    return text if len(text) <= LONGEST else text[:LONGEST] + "\N{HORIZONTAL ELLIPSIS}"


def _word(value: object) -> str:
    if value is None:
        return "\N{EN DASH}"
    if isinstance(value, float):
        return f"{value:g}"
    return value if isinstance(value, str) else json.dumps(value)
