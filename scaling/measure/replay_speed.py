"""Time draws from a weighted replay buffer: ``python -m scaling.measure.replay_speed``.

In the original task, 256 of a million transitions are drawn before each of five million updates of a soft actor-critic,
in proportion to their returns, shifted so that none is below 0. The numpy way recomputes all probabilities and calls
``choice``; the torch way passes the weights to ``multinomial`` and was 2.7 times as fast. Ours is
``pg_mpi.learning.self_imitation.sum_tree``. One new return is written before every draw, as in the task.
"""

import importlib.util
import json
import os
import statistics
import sys
import time

import numpy as np

from pg_mpi.config.parsers import Parser, checked, integer
from pg_mpi.files.csv_table import make_folder, write_csv
from pg_mpi.files.figure_file import picture
from pg_mpi.learning.self_imitation.sum_tree import SumTree
from scaling import cli
from scaling.pictures import speed

KIND = ("replay", 1)
IN_A_ROW = 5  # consecutive draws of each way, because other ways evict its data from the caches
MOST_TORCH = 1 << 24  # limit of categories of torch.multinomial


def parser():
    """Create the argument parser."""
    p = Parser(
        prog="python -m scaling.measure.replay_speed",
        description="Time draws without replacement in proportion to shifted returns, in turns: numpy (probabilities, "
        "then choice), torch if it is installed, and ours; for several numbers of entries.",
        epilog="Run nothing else on the machine meanwhile.",
        allow_abbrev=False,
    )
    p.add_argument("--entries", default="1e6", metavar="N", help="returns in the buffer (default: 1e6)")
    p.add_argument("--batch", default="256", metavar="K", help="entries per draw (default: 256)")
    p.add_argument("--repeats", default="15", metavar="R", help="repeats; medians are reported (default: 15)")
    p.add_argument("--growth", default="1e3,1e4,1e5,1e6,1e7", metavar="N,N", help="other numbers (default: 1e3 to 1e7)")
    p.add_argument("--out", metavar="FOLDER", help="also write replay.csv and replay.png there (extra: plot)")
    p.add_argument("--json", action="store_true", help="also print the result as a last line of JSON")
    return p


def numpy_way(returns, batch, rng):
    """Draw with numpy: (seconds for the probabilities, seconds for the draw)."""
    begun = time.perf_counter()
    lowest = min(returns.min(), 0)
    weights = returns + abs(lowest)
    probabilities = weights / weights.sum()
    between = time.perf_counter()
    rng.choice(len(returns), batch, replace=False, p=probabilities)
    return between - begun, time.perf_counter() - between


def torch_way(returns, batch):
    """Draw with torch: seconds for the weights and the draw."""
    import torch

    begun = time.perf_counter()
    weights = returns + torch.abs(torch.clamp(returns.min(), max=0))
    torch.multinomial(weights, batch, replacement=False)
    return time.perf_counter() - begun


def our_way(tree, batch, rng):
    """Draw with the sum tree: (seconds for writing one return, seconds for the draw)."""
    place, value = rng.integers(0, tree.capacity, 1), rng.normal(size=1)
    begun = time.perf_counter()
    tree.write(place, value)
    between = time.perf_counter()
    tree.draw(batch, rng)
    return between - begun, time.perf_counter() - between


def measure(entries, batch, repeats):
    """Median milliseconds of each way with ``entries`` entries over ``repeats`` turns: a dict."""
    rng = np.random.default_rng(0)
    returns = rng.normal(size=entries)
    tree = SumTree(entries)
    tree.write(np.arange(entries), returns)
    with_torch = importlib.util.find_spec("torch") is not None and entries < MOST_TORCH
    if with_torch:
        import torch

        torch.set_num_threads(1)
        tensor = torch.from_numpy(returns)
    batch, found = max(1, min(batch, entries // 2)), {}  # choice needs as many non-zero weights
    for turn in range(repeats + 1):  # the first turn is a warm-up
        times = {("prob_ms", "draw_ms"): [numpy_way(returns, batch, rng) for _ in range(IN_A_ROW)]}
        times["our_write_ms", "our_draw_ms"] = ours = [our_way(tree, batch, rng) for _ in range(IN_A_ROW)]
        times["ours_cold_ms",] = [(sum(ours[0]),)]
        if with_torch:
            times["torch_ms",] = [(torch_way(tensor, batch),) for _ in range(IN_A_ROW)]
        for names, rows in times.items() if turn else ():
            for name, seconds in zip(names, zip(*rows)):
                found.setdefault(name, []).append(1e3 * statistics.median(seconds))
    medians = {name: statistics.median(each) for name, each in found.items()}
    naive, ours = medians["prob_ms"] + medians["draw_ms"], medians["our_write_ms"] + medians["our_draw_ms"]
    medians = {"torch_ms": None, **medians, "naive_ms": naive, "ours_ms": ours, "speedup": naive / ours}
    return {"entries": entries, "batch": batch, **medians, "bytes_per_entry": tree.nbytes / entries}


def main(argv):
    """Measure and report. Returns the exit code."""
    args = parser().parse(argv)
    entries = checked(integer(), args.entries, "--entries")
    batch, repeats = checked(integer(), args.batch, "--batch"), checked(integer(), args.repeats, "--repeats")
    sizes = sorted({entries, *checked(_counts, args.growth, "--growth")})
    if args.out:
        make_folder(args.out)
    rows = []
    print(f"{'entries':>12}{'numpy, ms':>12}{'torch, ms':>12}{'ours, ms':>12}{'numpy / ours':>14}")
    for size in sizes:
        row = measure(size, batch, repeats)
        rows.append(row)
        torch = "none" if row["torch_ms"] is None else f"{row['torch_ms']:.3f}"
        print(
            f"{size:>12,}{row['naive_ms']:>12.3f}{torch:>12}{row['ours_ms']:>12.3f}{row['speedup']:>14.1f}", flush=True
        )
    result = rows[sizes.index(entries)] | {"growth": rows}
    print(
        f"{entries:,} entries: probabilities {result['prob_ms']:.2f} ms and choice {result['draw_ms']:.2f} ms; ours "
        f"{result['our_draw_ms']:.3f} ms, and {result['our_write_ms']:.3f} ms to write a return before each draw; "
        f"{result['ours_cold_ms']:.3f} ms for both with cold caches"
    )
    if args.out:
        write_csv(os.path.join(args.out, "replay.csv"), *KIND, rows, cli.facts("scaling.measure.replay_speed", argv))
        picture(speed.draw_replay, os.path.join(args.out, "replay.png"), rows)
    if args.json:
        print(json.dumps(result))
    sys.stdout.flush()
    return 0


def _counts(words):
    """Parse comma-separated whole numbers."""
    return [integer()(word) for word in words.split(",")]


if __name__ == "__main__":
    cli.run(main)
