"""Learning curves: run folders → a CSV with its provenance, and a picture.

    python docs/curve.py RUN [RUN ...] --name NAME

writes ``docs/results/NAME.csv`` (one line per ten seconds or so of each run; the commands, commits and versions stand
in comment lines on top) and ``docs/img/NAME.png``. Needs the extra ``plot``.
"""

import argparse
import csv
import json
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt  # noqa: E402

HERE = Path(__file__).parent
COLUMNS = ("wall_s", "env_steps", "games", "return_mean", "length_mean", "entropy", "sps_total", "rss_mb")
POINTS = 60  # per run


def read(run):
    """(provenance, label, lines) of a run folder, thinned to ``POINTS`` lines and the last."""
    config = json.loads((run / "config.json").read_text(encoding="utf-8"))
    with open(run / "metrics.jsonl", encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    every = max(1, len(lines) // POINTS)
    settings = config["settings"]
    start = config["starts"][0]
    provenance = {key: start[key] for key in ("commit", "time", "ranks", "mpi", "versions")}
    provenance["command"] = " ".join(["python -m pg_mpi.train", *start["command"][1:]])
    provenance["starts"] = len(config["starts"])
    label = f"{settings['preset']}, seed {settings['seed']}, {start['ranks']} ranks"
    return provenance, label, lines[::every] + lines[-1:]


def write_csv(path, runs):
    """All runs in one table, provenance as comments on top."""
    with open(path, "w", encoding="utf-8", newline="") as file:
        for provenance, label, _ in runs:
            file.write(f"# {label}: {json.dumps(provenance)}\n")
        table = csv.writer(file)
        table.writerow(["run", *COLUMNS])
        for _, label, lines in runs:
            table.writerows([label, *(line[column] for column in COLUMNS)] for line in lines)


def draw(path, runs):
    """Mean of the last 100 games against minutes."""
    figure, axes = plt.subplots(figsize=(8, 4.2), layout="constrained")
    for _, label, lines in runs:
        axes.plot([line["wall_s"] / 60 for line in lines], [line["return_mean"] for line in lines], label=label)
    axes.axhline(0, color="0.7", linewidth=0.8)
    axes.set(xlabel="minutes, start-up included", ylabel="score, mean of the last 100 games", ylim=(-21.5, 21.5))
    axes.set_title("Atari Pong, two ranks on two cores, sticky actions 0.25, full games")
    axes.legend(loc="lower right", frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run folders")
    parser.add_argument("--name", required=True, help="name of the CSV and the picture")
    args = parser.parse_args()
    runs = [read(run) for run in args.runs]
    for folder in ("results", "img"):
        (HERE / folder).mkdir(exist_ok=True)
    write_csv(HERE / "results" / f"{args.name}.csv", runs)
    draw(HERE / "img" / f"{args.name}.png", runs)
    print(f"docs/results/{args.name}.csv and docs/img/{args.name}.png written")


if __name__ == "__main__":
    main()
