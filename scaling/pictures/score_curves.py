"""Figures of scores against time."""

import numpy as np

from pg_mpi.files.figure_file import axes_of


def _curve(result, column):
    """A column of a result's curve and the scores, two arrays without the lines before the first game's end."""
    place, mean = (result["columns"].index(name) for name in (column, "return_mean"))
    return np.array([(line[place], line[mean]) for line in result["curve"] if line[mean] is not None]).reshape(-1, 2).T


def draw_search(path, groups):
    """Draw a line per run of ``scaling.score.search`` and a colour per setting, of ``groups``: {label: results}.

    Score against steps, or against minutes if all runs were alone on the machine.
    """
    alone = all("alone_on" in result for results in groups.values() for result in results)
    steps, minutes = ("env_steps", 1e6, "million agent steps"), ("wall_s", 60, "minutes, start-up included")
    column, unit, label = minutes if alone else steps
    with axes_of(path) as axes:
        for number, (name, results) in enumerate(groups.items()):
            for result in results:
                costs, scores = _curve(result, column)
                named = name if result is results[0] else None
                axes.plot(costs / unit, scores, color=f"C{number}", linewidth=1.2, alpha=0.8, label=named)
        for score in (0, 18):
            axes.axhline(score, color="0.7", linewidth=0.8, zorder=0)
        axes.set(xlabel=label, ylabel="score, mean of the last 100 games", title="A line for each seed")
        axes.legend(loc="lower right", frameon=False)


def draw_virtual(path, results):
    """Draw score against virtual time and against core-hours, a line per run, coloured by its number of ranks."""
    with axes_of(path, columns=2, size=(11, 4.2)) as (wall, cores):
        from matplotlib import colormaps

        counts = sorted({result["ranks"] for result in results})
        for place, ranks in enumerate(counts):
            colour = colormaps["viridis"](0.95 * place / max(1, len(counts) - 1))
            label = f"{ranks} rank{'s' if ranks > 1 else ''}"
            for result in (result for result in results if result["ranks"] == ranks):
                seconds, scores = _curve(result, "wall_s")
                wall.plot(seconds, scores, color=colour, label=label)
                cores.plot(seconds * ranks / 3600, scores, color=colour)
                label = None
        for axes in (wall, cores):
            for score in (0, results[0]["target"]):
                axes.axhline(score, color="0.7", linewidth=0.8, zorder=0)
            axes.set(xscale="log")
        wall.set(xlabel="virtual seconds", ylabel="score, mean of the last 100 games")
        cores.set(xlabel="core-hours")
        wall.legend(loc="lower right", frameon=False, fontsize=8)
