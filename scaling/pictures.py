"""Results → pictures. Needs the extra ``plot``; matplotlib is imported only when one is drawn."""

import contextlib


def draw_parts(path, result):
    """A bar of steps/s for each part of ``ceiling.py``; the emulator's speed as a line."""
    rows = result["parts"][::-1]
    with _axes(path) as axes:
        colours = ["0.75" if row["stub"] else "C0" for row in rows]
        bars = axes.barh([row["label"] for row in rows], [row["sps"] for row in rows], color=colours)
        axes.bar_label(bars, [f" {row['sps']:,.0f}  {row['share']:.0%}" for row in rows])
        axes.axvline(result["emulator_sps"], color="0.4", linewidth=0.8, linestyle="--")
        widest = max(row["sps"] for row in rows)
        axes.set(xlabel="steps/s of all ranks; % of the emulator alone", xlim=(0, 1.2 * widest))
        axes.set_title(f"What each part costs: {result['preset']}, {result['ranks']} ranks")


def draw_seeds(path, results):
    """Score against minutes, a thin line for each run of ``seeds.py``, a colour for each preset."""
    presets = list(dict.fromkeys(result["preset"] for result in results))
    with _axes(path) as axes:
        for result in results:
            wall, mean = (result["columns"].index(name) for name in ("wall_s", "return_mean"))
            points = [(line[wall] / 60, line[mean]) for line in result["curve"] if line[mean] is not None]
            colour = f"C{presets.index(result['preset'])}"
            label = result["preset"] if colour not in [line.get_color() for line in axes.lines] else None
            axes.plot(*zip(*points), color=colour, linewidth=1.2, alpha=0.8, label=label)
        for score in (0, 18):
            axes.axhline(score, color="0.7", linewidth=0.8, zorder=0)
        axes.set(xlabel="minutes, start-up included", ylabel="score, mean of the last 100 games", ylim=(-21.5, 21.5))
        ranks = " or ".join(sorted({str(result["ranks"]) for result in results}))
        axes.set_title(f"Atari Pong from scratch on {ranks} ranks, a line for each seed")
        axes.legend(loc="lower right", frameon=False)


@contextlib.contextmanager
def _axes(path):
    """The axes of one picture, saved at the end."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 4.2), layout="constrained")
    yield axes
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)
    plt.close(figure)
