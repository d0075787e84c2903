"""Draw a study."""

from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from pg_mpi.files.figure_file import axes_of
from pg_mpi.tune.space import Options
from pg_mpi.tune.study import Row

COLOURS = {"complete": "C0", "pruned": "0.7", "failed": "C3", "running": "C1"}
MOST = 5  # maximum number of settings drawn


def draw_study(path: str, rows: list[Row], dimensions: Mapping[str, Options]) -> None:
    """Draw the score of each trial, in order with the best so far, and against each setting."""
    shown = list(dimensions.items())[:MOST]
    with axes_of(path, columns=1 + len(shown), size=(3.6 * (1 + len(shown)), 3.6)) as panels:
        for state, colour in COLOURS.items():
            of_state = [row for row in rows if row.state == state and row.score is not None]
            slots, scores = [row.slot for row in of_state], [cast(float, row.score) for row in of_state]
            panels[0].scatter(slots, scores, s=16, color=colour, label=state)
            if state == "complete":
                panels[0].step(slots, np.maximum.accumulate(scores), where="post", color=colour, linewidth=1)
            for axes, (name, options) in zip(panels[1:], shown):
                places = [_place(options, row.params[name]) for row in of_state]
                axes.scatter(places, scores, s=16, color=colour)
        panels[0].set(xlabel="trial", ylabel="score, mean of its last 100 games")
        panels[0].legend(frameon=False, fontsize=8)
        for axes, (name, options) in zip(panels[1:], shown):
            axes.set_xlabel(name)
            if options.get("log"):
                axes.set_xscale("log")
            if "choices" in options:
                axes.set_xticks(range(len(options["choices"])), map(str, options["choices"]))


def _place(options: Options, value: Any) -> Any:
    return options["choices"].index(value) if "choices" in options else value
