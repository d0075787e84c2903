"""Compare the predictions of scaling.model.predict with runs on several hosts over slow links; writes a JSON file.

    python tests/batch/links.py OUT.json [--repeats 3] [--seconds 24]

Each repeat has a run on two ranks of one host, from which the predictions are made, and then runs on 2 and 4 hosts with
one rank each, over links without a limit, of 1 Gbit/s and of 100 Mbit/s. The network is measured by the doctor on the
same hosts and link. Predictions and runs are compared over the same updates. The hosts are namespaces of this machine
(hosts.py), so 4 ranks share its cores, which the prediction takes into account. Needs root; run
``sh tests/batch/install.sh`` to install the packages.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

from hosts import Hosts  # noqa: E402

from pg_mpi.files.atomic_file import write_json  # noqa: E402
from pg_mpi.mpi.launch.mpirun import usable_threads  # noqa: E402
from scaling.cli import facts  # noqa: E402
from scaling.model import exchange  # noqa: E402
from scaling.model.predict.measured import read_costs  # noqa: E402
from scaling.model.predict.model import predict  # noqa: E402

ROOT = Path(__file__).parents[2]
#: {Mbit/s: (name, factor of the run time, for enough updates)}
LINKS = {None: ("as fast as it goes", 1), 1000: ("1 Gbit/s", 1), 100: ("100 Mbit/s", 2)}
COUNTS = (2, 4)
WARMUP = 6.0


class Bench:
    """Run commands on the first host, which reaches the others by ssh."""

    def __init__(self, hosts, folder, seconds):
        self._hosts, self._folder, self._seconds = hosts, Path(folder), seconds
        hosts.serve_ssh()
        self._environment = {**hosts.environment, "PYTHONPATH": str(ROOT)}

    def _run(self, *words, **environment):
        line = self._hosts.command("n1", sys.executable, "-m", *map(str, words))
        options = {"cwd": self._folder, "env": {**os.environ, **self._environment, **environment}}
        done = subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, **options)
        if done.returncode:
            raise RuntimeError(f"{' '.join(map(str, words))}: {done.stderr}")
        return done.stdout

    def nodes(self, count):
        """Write a host file with ``count`` hosts and return its path."""
        path = self._folder / f"nodes-{count}"
        path.write_text("".join(f"{name}\n" for name in self._hosts.names[:count]), encoding="utf-8")
        return path

    def network(self, count):
        """Measure the ``Network`` of ``count`` hosts with the doctor. Hosts that share cores exchange more slowly."""
        words = ["pg_mpi.mpi.launch", "-n", count, "--", "pg_mpi.doctor", "--json", "--seconds", "2"]
        report = json.loads(self._run(*words, PBS_NODEFILE=str(self.nodes(count))).splitlines()[-1])
        return exchange.fitted(count, {int(size): seconds for size, seconds in report["allreduce_s"].items()})

    def sweep(self, name, ranks, factor, *words):
        """Run a sweep into a new folder and return its rows."""
        time = ["--seconds", factor * self._seconds, "--warmup", WARMUP]
        out = ["--out", self._folder / name, "--keep", "--json"]
        output = self._run("scaling.sweep", "--ranks", ranks, *time, *out, *words)
        return json.loads(output.splitlines()[-1])["rows"]


def measure(bench, hosts, folder, repeat):
    """Run one repeat: a row for each link and number of hosts."""
    hosts.shape(None)
    bench.sweep(f"base-{repeat}", 2, 1)
    base, rows = Path(folder, f"base-{repeat}", "run-000002-0"), []
    for megabits, (link, factor) in LINKS.items():
        hosts.shape(megabits)
        nodes = ["--hosts", bench.nodes(max(COUNTS))]
        for row in bench.sweep(f"link-{megabits}-{repeat}", ",".join(map(str, COUNTS)), factor, *nodes):
            out = Path(folder, f"link-{megabits}-{repeat}", f"ranks-{row['ranks']:06d}-0.json")
            costs = read_costs(base, between=json.loads(out.read_text())["between_updates"])
            predicted = predict(
                costs, row["ranks"], (None, bench.network(row["ranks"])), node=1, cores=usable_threads()
            )
            shares = {
                "allreduce": row["phase_share"]["allreduce"],
                "predicted_allreduce": predicted["allreduce_fraction"],
            }
            speeds = {"link": link, "hosts": row["ranks"], "sps": row["sps"], "predicted": float(predicted["sps"])}
            rows.append({**speeds, **{name: round(float(share), 4) for name, share in shares.items()}})
            print(rows[-1], file=sys.stderr, flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", help="the JSON file to write")
    parser.add_argument("--repeats", type=int, default=3, help="number of repeats (default: 3)")
    parser.add_argument("--seconds", type=float, default=24, help="length of each run after its start (default: 24)")
    args = parser.parse_args()
    if missing := [name for name in ("ip", "tc", "sshd", "ssh", "ssh-keygen") if not shutil.which(name)]:
        sys.exit(f"links.py: {', '.join(missing)} not found: sh tests/batch/install.sh installs all it needs (Debian)")
    turns = []
    with tempfile.TemporaryDirectory() as folder, Hosts(max(COUNTS), folder) as hosts:
        bench = Bench(hosts, folder, args.seconds)
        for repeat in range(args.repeats):
            turns.append(measure(bench, hosts, folder, repeat))
    rows = []
    for group in zip(*turns):
        medians = {
            name: statistics.median(row[name] for row in group) for name in group[0] if name not in ("link", "hosts")
        }
        error = statistics.median(row["predicted"] / row["sps"] - 1 for row in group)
        rows.append({"link": group[0]["link"], "hosts": group[0]["hosts"], **medians, "error": error})
        print(f"{rows[-1]['hosts']} hosts, {rows[-1]['link']}: {medians['sps']:,.0f} steps/s, predicted {error:+.1%}")
    write_json(args.out, {"rows": rows, "turns": turns, **facts("tests/batch/links.py", sys.argv[1:])})


if __name__ == "__main__":
    main()
