"""The report page: numbers, figures, settings and provenance."""

import pathlib
import time

from pg_mpi import __version__
from pg_mpi.report import panels, summary, tables
from pg_mpi.report.markup import Markup, element
from pg_mpi.report.read import Run
from pg_mpi.report.theme import DARK, LIGHT, PHASES, RUNS, variables

#: Content security policy: no scripts, no network access and no files, whatever the page contains.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; media-src data:"


def make(runs: list[Run]) -> str:
    """Return the page as HTML text."""
    now = time.strftime("%Y-%m-%d at %H:%M UTC", time.gmtime())
    title = runs[0].name if len(runs) == 1 else f"{len(runs)} runs"
    body = element(
        "main",
        summary.head(runs, title),
        _notes(runs),
        summary.tiles(runs[0]) if len(runs) == 1 else summary.summary(runs),
        panels.learning(runs),
        *panels.grids(runs),
        _settings(runs),
        element("section", element("h2", "Provenance"), tables.provenance(runs)),
        element("footer", f"Written by pg_mpi {__version__} on {now}"),
    )
    head = Markup(
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}"><meta name="color-scheme" content="light dark">'
    )
    html = element("html", element("head", head, element("title", title), _style()), element("body", body), lang="en")
    return f"<!doctype html>\n{html}\n"


def _style() -> Markup:
    css = pathlib.Path(__file__).with_name("page.css").read_text(encoding="utf-8")
    dark = f"@media screen and (prefers-color-scheme: dark){{:root{{{variables(DARK)}}}}}"
    phases = "".join(f".phase-{name}{{color:{colour}}}" for name, colour in PHASES.items())
    runs = "".join(f".run{number}{{color:var(--run{number})}}" for number in range(RUNS))
    return element("style", Markup(f":root{{{variables(LIGHT)}}}\n{dark}\n{runs}{phases}\n{css}"))


def _notes(runs: list[Run]) -> Markup | None:
    lines = [element("li", f"{run.name}: {note}") for run in runs for note in run.notes]
    return element("ul", *lines, class_="notes") if lines else None


def _settings(runs: list[Run]) -> Markup:
    few, everything = tables.settings(runs)
    said = "Those that differ from the preset" + (" or between the runs" if len(runs) > 1 else "")
    what = element("p", said if few else "All equal the preset.", class_="what")
    details = element("details", element("summary", "all settings"), everything)
    return element("section", element("h2", "Settings"), what, few, details)
