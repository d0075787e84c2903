"""Tables of settings and provenance, a column for each run; differences between runs are marked."""

import dataclasses
import json
import shlex
from typing import Any

from pg_mpi.config.presets import PRESETS, env_defaults
from pg_mpi.config.settings import FIELDS, TrainConfig, inapplicable
from pg_mpi.report.markup import Markup, cell, element, join, table
from pg_mpi.report.read import Run
from pg_mpi.report.run_files import as_dict, as_list, is_number

LONGEST = 400  # characters of one value
UNSET = "\N{EN DASH}"
_IN_HEAD = ("preset", "run_dir")  # shown in the head and in the provenance
_OWN = ("folder", "command", "starts")  # provenance that always differs between runs


def settings(runs: list[Run]) -> tuple[Markup | None, Markup]:
    """Return (table of the settings that differ from the preset or None, table of all settings)."""
    names = list(FIELDS) + sorted({name for run in runs for name in run.beside.settings} - FIELDS.keys())
    usual = [_usual(run) for run in runs]
    rows, special = [], []
    for name in names:
        values = [run.beside.settings.get(name) for run in runs]
        row = _row(name, [_value(value) for value in values])
        rows.append(row)
        changed = [name not in its or its[name] != value for its, value in zip(usual, values)]
        if name not in _IN_HEAD and any(changed):
            help_text = FIELDS[name].metadata["help"] if name in FIELDS else ""
            preset = join(dict.fromkeys(_value(its.get(name)) for its in usual), ", ")
            special.append([*row, cell(preset, class_="quiet"), cell(help_text, class_="quiet text")])
    columns = ["setting", *_columns(runs)]
    few = table([*columns, "preset", "what it is"], special) if special else None
    return few, table(columns, rows)


def provenance(runs: list[Run]) -> Markup:
    """Table of each run's provenance at its last start."""
    facts = [_facts(run) for run in runs]
    rows = [_row(name, [shorten(its[name]) for its in facts], "text", name not in _OWN) for name in facts[0]]
    return table(["", *_columns(runs)], rows)


def _columns(runs: list[Run]) -> list[str]:
    return [run.name for run in runs] if len(runs) > 1 else ["this run"]


def _row(name: str, values: list[str], kind: str | None = None, compared: bool = True) -> list[str]:
    """A row whose values are marked where the runs differ."""
    if not compared or len(set(values)) == 1:
        return [name, *(cell(value, class_=kind) for value in values)]
    label = join([name, element("span", " \N{NOT EQUAL TO}", class_="sign", title="differs between the runs")])
    return [label, *(cell(element("mark", value), class_=kind) for value in values)]


def _usual(run: Run) -> dict[str, Any]:
    """Settings of a run's preset; the defaults if its preset is a file."""
    settings = run.beside.settings
    env_id, preset = str(settings.get("env_id", TrainConfig.env_id)), str(settings.get("preset"))
    own = {name: value for name, value in PRESETS.get(preset, {}).items() if name not in inapplicable(env_id)}
    return dataclasses.asdict(TrainConfig(**env_defaults(env_id) | own))


def _value(value: Any) -> str:
    """Format a setting."""
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return shorten(f"{value:,}")
    return shorten(value if value is None or isinstance(value, str) else json.dumps(value))


def shorten(value: Any) -> str:
    """Format any value as text of bounded length."""
    text = UNSET if value in (None, "", [], {}) else str(value)
    return text if len(text) <= LONGEST else text[:LONGEST] + "\N{HORIZONTAL ELLIPSIS}"


def _facts(run: Run) -> dict[str, Any]:
    """Provenance of a run at its last start."""
    start, places = run.beside.start, as_dict(run.beside.start.get("places"))
    hosts, kinds = (
        [row for row in as_list(places.get(key)) if isinstance(row, dict)][:8] for key in ("by_host", "by_kind")
    )
    threads = dict.fromkeys(f"{row.get('threads')} ({row.get('blas')})" for row in kinds)
    return {
        "folder": run.path,
        "command": shlex.join(map(str, as_list(start.get("command")))),
        "starts": _times(run),
        "ended": run.beside.ended or "not finished",
        "commit": start.get("commit"),
        "versions": _pairs(start.get("versions")),
        "ranks": start.get("ranks"),
        "hosts": _hosts(hosts, places.get("hosts")),
        "BLAS threads of a rank": ", ".join(threads),
        "MPI": start.get("mpi"),
        "job": _pairs(start.get("job")),
    }


def _times(run: Run) -> str:
    times = [shorten(start.get("time")) for start in run.beside.starts]
    if len(times) > 4:
        times[3:-1] = ["\N{HORIZONTAL ELLIPSIS}"]
    return f"{len(times)}: " + ", ".join(times)


def _hosts(rows: list[dict[str, Any]], count: Any) -> str | None:
    more = " ..." if is_number(count) and count > len(rows) else ""
    return f"{shorten(count)}: {', '.join(shorten(row.get('host')) for row in rows)}{more}" if rows else None


def _pairs(values: Any) -> str:
    """Format a dict as ``name value`` pairs."""
    return ", ".join(f"{name} {value}" for name, value in as_dict(values).items())
