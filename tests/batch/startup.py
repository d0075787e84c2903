"""Measure start-up with and without jobs/stage.sh on the SLURM cluster of this folder; writes a JSON file.

    python tests/batch/startup.py OUT.json [--repeats 3]

Each point is a job with one rank per node. The doctor reports the import time of the slowest rank, and the number and
file system of the modules. File caches are emptied before each job. All nodes share this machine's disk, not a network
file system, so the result is the cost of staging, not the time that it saves.
"""

import argparse
import json
import re
import statistics
import sys
import tempfile
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

from cluster import Slurm  # noqa: E402
from submitted import ENVIRONMENT, SCRIPTS, log  # noqa: E402

from pg_mpi.files.atomic_file import write_json  # noqa: E402
from scaling.cli import facts  # noqa: E402

#: A job with the functions of common.sh that runs the doctor with JSON output instead of training.
JOB = """#!/usr/bin/env bash
trap 'asked=USR1' USR1; trap 'asked=TERM' TERM
home="{scripts}/.."
. "{scripts}/common.sh"
. "{scripts}/slurm.sh"
prepare ""
on_all_ranks pg_mpi.doctor --json --seconds 0.1
unstage
"""


def measure(slurm, nodes, stage):
    """Run one job: import time and modules of the slowest rank, and the time of staging."""
    Path("/proc/sys/vm/drop_caches").write_text("3")
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "job.sh")
        script.write_text(JOB.format(scripts=SCRIPTS), encoding="utf-8")
        environment = {**ENVIRONMENT, "PG_MPI_LAUNCHER": "srun --mpi=pmix"}
        if stage:
            environment["PG_MPI_STAGE"] = str(slurm.hosts.local)
        options = [f"--nodes={nodes}", "--ntasks-per-node=1", "--output=job.log", script]
        slurm.wait_for_state(slurm.submit(folder, *options, **environment), "COMPLETED", 120)
        text = log(folder)
    report = next((line for line in text.splitlines() if line.startswith("{")), None)
    if report is None:
        sys.exit(f"a job on {nodes} nodes, stage={stage}, printed no report:\n{text}")
    ranks = json.loads(report)["ranks"]
    slowest = max(ranks, key=lambda rank: rank["import_s"])
    staged = re.search(r"disk, (\d+) s after the start", text)
    return {"import_s": slowest["import_s"], **slowest["imported"], "staged_s": int(staged[1]) if staged else None}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", help="the JSON file to write")
    parser.add_argument("--repeats", type=int, default=3, help="jobs per point (default: 3)")
    args = parser.parse_args()
    points = [(nodes, stage) for nodes in (1, 2, 4) for stage in (False, True)]
    results = {point: [] for point in points}
    with tempfile.TemporaryDirectory() as folder, Slurm(folder) as slurm:
        for _ in range(args.repeats):
            for point in points:
                results[point].append(measure(slurm, *point))
                print(point, results[point][-1], file=sys.stderr, flush=True)
    rows = []
    for (nodes, stage), group in results.items():
        seconds = [row["import_s"] for row in group]
        modules = {name: group[0][name] for name in ("modules", "file_system")}
        staged = statistics.median(row["staged_s"] for row in group) if stage else None
        rows.append({"nodes": nodes, "staged": stage, "import_s": seconds, **modules, "staged_after_s": staged})
        staging = f"staged {staged:.0f} s after the start" if stage else "not staged"
        print(f"{nodes} nodes, {staging}: imported after {statistics.median(seconds):.2f} s, {modules}")
    write_json(args.out, {"rows": rows, **facts("tests/batch/startup.py", sys.argv[1:])})


if __name__ == "__main__":
    main()
