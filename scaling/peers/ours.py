"""pg_mpi with one of its presets, one rank per core."""

import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pg_mpi.config.errors import RUN_AGAIN
from pg_mpi.files.metrics_file import last_line
from pg_mpi.files.provenance import commit_of_source
from scaling.peers.log import Log, arguments, cores, versions

ROOT = Path(__file__).parents[2]


def follow(job, metrics, log):
    """Copy the job's metrics to the log until it ends or the budget is spent."""
    over = False
    while not over and job.poll() is None:
        time.sleep(1)
        line = last_line(metrics)
        over = bool(line) and log.line(line["env_steps"], line["return_mean"], line["games"])


def main():
    parser = arguments(__doc__)
    parser.add_argument("--preset", default="default", help="pg_mpi's --preset")
    args = parser.parse_args()
    log = Log(
        args,
        name=f"pg_mpi, {args.preset}",
        settings=f"--preset {args.preset}, {cores()} ranks",
        versions={"pg_mpi": commit_of_source(), **versions("numpy", "ale-py", "mpi4py")},
    )
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder, "run")
        command = [sys.executable, "-m", "pg_mpi.mpi.launch", "-n", str(cores()), "pg_mpi.train"]
        command += ["--preset", args.preset, "--seed", str(args.seed), "--run-dir", str(run)]
        with subprocess.Popen(command, cwd=ROOT) as job:
            follow(job, str(run / "metrics.jsonl"), log)
            job.send_signal(signal.SIGTERM)  # the launcher saves a checkpoint and ends
    return job.returncode not in (0, RUN_AGAIN)


if __name__ == "__main__":
    raise SystemExit(main())
