"""Draw the scores that ``pong_serial.py`` and ``pong_mpi.py`` print, against time.

python examples/plot_scores.py runs/serial.log runs/two.log --out runs/scores.png
"""

import argparse
import re
from pathlib import Path

import matplotlib

LINE = re.compile(r" *(\d+) s +([\d,]+) steps, score +\S+, mean of the last 100 (\S+)")


def main():
    """Read the logs and write the picture."""
    parser = argparse.ArgumentParser(description="Draw scores against time.")
    parser.add_argument("logs", nargs="+", help="what pong_serial.py or pong_mpi.py printed")
    parser.add_argument("--out", required=True, help="picture to write, such as runs/scores.png")
    args = parser.parse_args()
    matplotlib.use("agg")
    from matplotlib import pyplot

    for path in args.logs:
        found = [match for line in Path(path).read_text().splitlines() if (match := LINE.fullmatch(line))]
        if not found:
            parser.error(f"{path} holds no line of scores")
        seconds, means = [int(match[1]) for match in found], [float(match[3]) for match in found]
        steps = int(found[-1][2].replace(",", ""))
        pyplot.plot(seconds, means, label=f"{Path(path).stem}: {steps / max(seconds[-1], 1):,.0f} steps/s")
    pyplot.xlabel("seconds")
    pyplot.ylabel("mean score of the last 100 games")
    pyplot.legend(frameon=False)
    pyplot.savefig(args.out, dpi=100)


if __name__ == "__main__":
    main()
