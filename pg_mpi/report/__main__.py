"""Report: ``python -m pg_mpi.report RUN [RUN ...]``. One self-contained HTML file; needs no MPI."""

import json
import os
import sys

from pg_mpi.config.errors import UsageError
from pg_mpi.config.parsers import Parser
from pg_mpi.files.run_folder import write_text
from pg_mpi.mpi.launch import launch_env


def parser():
    """The command line."""
    p = Parser(
        prog="python -m pg_mpi.report",
        description="Make one HTML file of one run, or of several laid over each other: learning curve with its "
        "interval, speed, where the time went, which rank waited, the last evaluation and its video, settings and "
        "provenance. It opens in any browser, without a network: copy it to a laptop and look.",
        epilog="A run may still be training. pg_mpi.evaluate RUN --video RUN/game.mp4 leaves an evaluation and a "
        "video that the next report shows. Exit codes: 0 written, 2 wrong usage or files that cannot be used. "
        "Needs the extra package: pip install 'pg_mpi[plot]'.",
        allow_abbrev=False,
    )
    p.add_argument("runs", metavar="RUN", nargs="+", help="a run folder, such as runs/pong-default-s0")
    p.add_argument("--out", metavar="FILE", help="the page (default: RUN/report.html; of several runs: report.html)")
    p.add_argument("--json", action="store_true", help="print one line of JSON, last: path, bytes, runs")
    return p


def main(argv):
    """Make the page that the command line asks for. Raises ``UsageError``."""
    args = parser().parse(argv)
    from pg_mpi.report import figures, page, read  # after the command line was found right: numpy takes its time

    figures.check()
    runs = read.runs(args.runs)
    out = args.out or (os.path.join(args.runs[0], "report.html") if len(runs) == 1 else "report.html")
    if os.path.splitext(out)[1].lower() not in (".html", ".htm"):
        raise UsageError(f"--out must end with .html, not {out!r}")
    for run in runs:
        for note in run.notes:
            print(f"pg_mpi: warning: {run.name}: {note}", file=sys.stderr, flush=True)
    text = page.make(runs)
    try:
        write_text(out, text)
    except OSError as error:
        raise UsageError(f"the report {out} cannot be written ({error.strerror}): give another --out") from None
    size = len(text.encode())
    names = f"{len(runs)} runs" if len(runs) > 1 else runs[0].name
    print(f"report of {names}: {out} ({size / 1e6:.1f} MB), open it in a browser", flush=True)
    if args.json:
        print(json.dumps({"path": out, "bytes": size, "runs": [run.path for run in runs]}), flush=True)


if __name__ == "__main__":
    if launch_env.is_first_process():  # under mpirun too one page is enough
        try:
            main(sys.argv[1:])
        except UsageError as wrong:
            print(f"pg_mpi: error: {wrong}", file=sys.stderr)
            sys.exit(2)
