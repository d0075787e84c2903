"""Progress lines and result files of a study, on rank 0."""

import contextlib
import itertools
import shlex
import sys
import time
from collections.abc import Callable
from typing import Any, cast

from pg_mpi.config.command_line import flag
from pg_mpi.config.presets import names_foreign_code
from pg_mpi.files.atomic_file import write_json
from pg_mpi.files.csv_table import write_csv
from pg_mpi.files.figure_file import picture
from pg_mpi.tune import pictures
from pg_mpi.tune.study import Row, Study

KIND = ("tune", 1)
EVERY = 2.0  # seconds between two readings of the journal


def settings_of(params: dict[str, Any]) -> str:
    """Format settings as ``name=value``."""
    texts = {name: f"{value:.4g}" if isinstance(value, float) else value for name, value in params.items()}
    return " ".join(f"{name}={text}" for name, text in texts.items())


def line_of(row: Row) -> str:
    """Format a trial as a row of the table."""
    score = "" if row.score is None else f"{row.score:+.2f}"
    return f"{row.slot:>5}  {row.state:<9}{score:>8}   {settings_of(row.params)}{'   ' + row.why if row.why else ''}"


class Board:
    """Prints a line for each finished trial."""

    def __init__(self, study: Study, trials: int) -> None:
        self._study, self._trials, self._next = study, trials, 0.0
        self._stream = sys.stdout  # which trials redirect
        self._told = {row.slot for row in study.rows() if row.state != "running"}
        self.say(f"{trials} trials in {study.folder}, of which {len(self._told)} are over")
        self.say(f"{'trial':>5}  {'state':<9}{'score':>8}   settings")

    def refresh(self) -> None:
        """Print new results, at most every ``EVERY`` seconds."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + EVERY
        for row in self._study.rows():
            if row.state != "running" and row.slot not in self._told:
                self._told.add(row.slot)
                self.say(line_of(row))

    def say(self, line: str) -> None:
        """Print a line. Its reader may have left, by the Ctrl-C that stops the study."""
        with contextlib.suppress(OSError):
            print(line, file=self._stream, flush=True)

    def close(self, preset: Callable[[dict[str, Any]], dict[str, Any]], facts: dict[str, Any]) -> list[Row]:
        """Write trials.csv and, if a trial is complete, best.json and study.png; return the rows.

        ``preset``: function from a trial's ``params`` to the settings of a preset file.
        """
        self._next = 0.0
        self.refresh()
        rows = self._study.rows()
        over = [row for row in rows if row.state != "running"]
        folder = self._study.folder
        table = [
            {"trial": row.slot, "state": row.state, "score": row.score, **row.params, "why": row.why} for row in rows
        ]
        write_csv(f"{folder}/trials.csv", *KIND, table, facts)
        complete = [row for row in rows if row.state == "complete"]
        if complete:
            best = max(complete, key=lambda row: cast(float, row.score))
            settings = preset(best.params)
            write_json(f"{folder}/best.json", settings)
            named = [(flag(name), value) for name, value in settings.items() if names_foreign_code(name, value)]
            words = ["--preset", f"{folder}/best.json", *itertools.chain(*named)]
            self.say(f"best: trial {best.slot}, {best.score:+.2f}: {settings_of(best.params)}")
            self.say(f"train with it: python -m pg_mpi.train {shlex.join(words)}")
            drawn = picture(pictures.draw_study, f"{folder}/study.png", rows, self._study.dimensions)
            self.say(f"written: {folder}/trials.csv, {folder}/best.json{', ' + drawn if drawn else ''}")
        if len(over) >= self._trials:
            write_json(f"{folder}/DONE", {"trials": len(over), "complete": len(complete)})
        return rows
