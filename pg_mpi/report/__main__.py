"""Write one self-contained HTML report: ``python -m pg_mpi.report RUN [RUN ...]``. Needs no MPI."""

import json
import os
import sys

from pg_mpi.config.errors import UsageError, system_faults, warn
from pg_mpi.config.parsers import Parser, check_extra
from pg_mpi.files.atomic_file import write_text
from pg_mpi.mpi import process


def parser() -> Parser:
    """Return the command-line parser."""
    p = Parser(
        prog="python -m pg_mpi.report",
        description="Write one HTML file for a run, or for several runs in common figures: learning curve with its "
        "interval, speed, shares of the time, waiting by rank, the last evaluation and its video, settings and "
        "provenance. The file opens in any browser and needs no network.",
        epilog="A run may still be training. pg_mpi.evaluate RUN --video RUN/game.mp4 writes an evaluation and a "
        "video, which the next report shows. Exit codes: 0 written, 2 wrong usage or files that cannot be used, 75 or "
        "1 a file that the system cannot read or write. Needs the extra package: pip install 'pg_mpi[plot]'.",
    )
    p.add_argument("runs", metavar="RUN", nargs="+", help="a run folder, such as runs/pong-default-s0")
    p.add_argument("--out", metavar="FILE", help="the page (default: RUN/report.html; of several runs: report.html)")
    p.add_argument("--json", action="store_true", help="print one line of JSON, last: path, bytes, runs")
    return p


def main(argv: list[str]) -> int:
    """Write the report and return the exit code. Raises ``UsageError``."""
    args = parser().parse(argv)
    from pg_mpi.report import page, read  # imported late, because numpy loads slowly

    check_extra("matplotlib", "plot", "a report")
    runs = read.runs(args.runs)
    out = args.out or (os.path.join(args.runs[0], "report.html") if len(runs) == 1 else "report.html")
    if os.path.splitext(out)[1].lower() not in (".html", ".htm"):
        raise UsageError(f"--out must end with .html, not {out!r}")
    for run in runs:
        for note in run.notes:
            warn(f"{run.name}: {note}")
    text = page.make(runs)
    with system_faults(f"the report {out} cannot be written", "give another --out", given=True):
        write_text(out, text)
    size = len(text.encode())
    names = f"{len(runs)} runs" if len(runs) > 1 else runs[0].name
    print(f"report of {names}: {out} ({size / 1e6:.1f} MB), open it in a browser", flush=True)
    if args.json:
        print(json.dumps({"path": out, "bytes": size, "runs": [run.path for run in runs]}), flush=True)
    return 0


if __name__ == "__main__":
    process.run_alone(main, sys.argv[1:])
