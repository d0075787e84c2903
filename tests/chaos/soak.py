"""Train for an hour with a fault every minute: ``make soak``.

    python tests/chaos/soak.py [--minutes 60] [--ranks 4] [--target 10] [--seed S] [--out runs/soak]

The same command is started again after every exit, as by a batch system. One rank's emulators raise in 1 of 2,000 steps
throughout. When the target score is reached, the next run begins with another seed; the last run continues until it has
reached the score. Memory, open files and files in /dev/shm are written to soak.csv every few seconds. Prints a line for
each fault, and a summary as one line of JSON.
"""

import argparse
import contextlib
import csv
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

from outcome import gone  # noqa: E402
from soak_faults import FAULTS, kill_session, mpirun_of, ranks_under  # noqa: E402

from pg_mpi.config.errors import CheckpointError  # noqa: E402
from pg_mpi.files import checkpoint_folder  # noqa: E402

FAULT_INTERVAL = 60.0  # mean seconds between two faults
SAMPLE_INTERVAL = 5.0  # seconds between two rows of soak.csv
WATCHDOG = 30
END_LIMIT = 120.0  # seconds from a fault to the end of the job
ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests/mpi'}"}
COLUMNS = ("second", "run", "start", "ranks", "rss_mb", "open_files", "shm_segments", "shm_mb", "tmp_folders")


class Soak:
    """Successive training runs, each restarted after every fault."""

    def __init__(self, args):
        self.args, self.rng, self.out = args, random.Random(args.seed), Path(args.out)
        if self.out.exists():
            sys.exit(f"{self.out} exists: move it away, or give another --out")
        self.out.mkdir(parents=True)
        self.begun, self.run, self.starts = time.monotonic(), 0, 0
        self.faults, self.reached = dict.fromkeys(FAULTS, 0), 0
        self.failures, self.worst = dict.fromkeys(("lost", "hung", "wrong"), 0), 0.0
        self.known, self.rows, self._file = 0, [], open(self.out / "soak.csv", "w", newline="")  # noqa: SIM115
        self._csv = csv.writer(self._file)
        self._csv.writerow(COLUMNS)

    def minutes(self):
        return (time.monotonic() - self.begun) / 60

    def run_all(self):
        """Start jobs, inject faults and check the results, until time is up and the score is reached."""
        while True:
            job = self.start()
            fault = self.wait_or_inject(job)
            self.check(job, fault)
            if job.returncode == 0:
                self.reached += 1
                print(f"{self.minutes():5.1f} min: run {self.run} reached {self.args.target}", flush=True)
                if self.minutes() >= self.args.minutes:
                    return self.summary()
                self.run, self.known = self.run + 1, 0

    def folder(self):
        return self.out / f"run-{self.run}"

    def start(self):
        self.starts += 1
        words = ["--run-dir", self.folder(), "--preset", "fast", "--seed", self.run, "--watchdog", WATCHDOG]
        words += ["--target-return", self.args.target, "--checkpoint-every", 5]
        launcher = [sys.executable, "-m", "pg_mpi.mpi.launch", "-n", self.args.ranks, "--"]
        launcher += ["faults", "emulator:0.0005"]  # tests/mpi/faults.py: the trainer with an injected fault
        with open(self.out / "output.txt", "a") as output:
            line = list(map(str, [*launcher, *words]))
            return subprocess.Popen(
                line, env=ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )

    def wait_or_inject(self, job):
        """Wait until a job ends. Returns the fault that was injected, or None if it ended by itself."""
        due = time.monotonic() + self.rng.uniform(0.5, 1.5) * FAULT_INTERVAL
        while job.poll() is None:
            self.sample(job)
            left = due - time.monotonic()
            with contextlib.suppress(subprocess.TimeoutExpired):
                job.wait(min(SAMPLE_INTERVAL, max(left, 0.1)))
            if time.monotonic() >= due and job.poll() is None:
                fault = self.rng.choice(list(FAULTS))
                self.faults[fault] += 1
                begun = time.monotonic()
                try:
                    FAULTS[fault](job, self.folder(), self.rng)
                    job.wait(END_LIMIT)
                except subprocess.TimeoutExpired:
                    self.count("hung", f"{fault}: not ended after {END_LIMIT:g} s")
                    kill_session(job)
                self.worst = max(self.worst, time.monotonic() - begun)
                return fault
        return None

    def check(self, job, fault):
        """Check that no processes remain, that no update is lost, and the exit code."""
        code = job.returncode
        print(f"{self.minutes():5.1f} min: {fault or 'no fault'}, exit {code}, update {self.known}", flush=True)
        if fault is None and code:
            self.count("wrong", f"exit {code} without a fault")
        if fault == "USR1" and code not in (0, 75):
            self.count("wrong", f"exit {code} after USR1")
        try:
            for leader in (job.pid, getattr(job, "mpirun", job.pid)):
                gone(leader, patience=10)
        except AssertionError as error:
            self.count("hung", str(error))
            kill_session(job)
        try:
            found = checkpoint_folder.load_newest(str(self.folder()), lambda line: None)
        except CheckpointError as error:
            return self.count("lost", str(error))
        update = found[2]["counters"]["update"] if found else 0
        if update < self.known and fault != "damaged":
            self.count("lost", f"update {self.known} was saved, but the newest is {update}")
        self.known = update

    def count(self, kind, why):
        self.failures[kind] += 1
        print(f"        {kind}: {why}", flush=True)

    def sample(self, job):
        """Write a row of soak.csv."""
        with contextlib.suppress(OSError, IndexError, StopIteration, ValueError):  # a rank that has ended
            job.mpirun = mpirun_of(job)
            ranks = ranks_under(job)
            rss = [_rss_mb(rank) for rank in ranks]
            files = [len(os.listdir(f"/proc/{rank}/fd")) for rank in ranks]
            segments = list(Path("/dev/shm").glob("sm_segment*"))
            used = sum(path.stat().st_blocks for path in segments) * 512 / 1e6
            folders = len(list(Path(tempfile.gettempdir()).glob("ompi.*")))
            row = (round(time.monotonic() - self.begun), self.run, self.starts, len(ranks))
            row += (round(max(rss)), max(files), len(segments), round(used, 1), folders)
            self.rows.append(row)
            self._csv.writerow(row)
            self._file.flush()

    def summary(self):
        complete = [row for row in self.rows if row[3] == self.args.ranks]
        third = max(1, len(complete) // 3)
        columns = {}
        for name in COLUMNS[4:]:
            column = [row[COLUMNS.index(name)] for row in complete]
            columns[name] = [statistics.median(column[:third]), statistics.median(column[-third:]), max(column)]
        return {
            "minutes": round(self.minutes(), 1),
            "starts": self.starts,
            "faults": self.faults,
            **self.failures,
            "reached": self.reached,
            "target": self.args.target,
            "worst_s": round(self.worst, 1),
            "first third, last third, most": columns,
        }


def _rss_mb(process):
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60.0, help="minimum duration (default: 60)")
    parser.add_argument("--ranks", type=int, default=4, help="MPI ranks (default: 4)")
    parser.add_argument("--target", type=float, default=10.0, help="mean of 100 games to reach (default: 10)")
    parser.add_argument(
        "--seed", type=int, default=int(time.time()), help="random seed of the faults (default: the time)"
    )
    parser.add_argument("--out", default="runs/soak", help="a new folder (default: runs/soak)")
    args = parser.parse_args()
    found = Soak(args).run_all()
    print(json.dumps(found))
    return int(any(found[name] for name in ("lost", "hung", "wrong")))


if __name__ == "__main__":
    sys.exit(main())
