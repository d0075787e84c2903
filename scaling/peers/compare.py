"""Train with each peer for the same wall-clock time, then write the tables.

    python -m scaling.peers.compare --seconds 600 [PEER ...]

Run it on an idle machine, from the top of a checkout, with any Python. Each peer runs in its own environment, created
by ``scaling/peers/setup.sh``. The output of a peer goes to ``PEER.log`` beside the environments.
"""

import argparse
import json
import os
import subprocess
import time
from pathlib import Path

from scaling.peers import table

ROOT = Path(__file__).parents[2]
ENVIRONMENTS = Path(os.environ.get("PEERS_DIR", ROOT / ".peers")).absolute()
PATIENCE = 600  # seconds that a peer may take to end after its time


#: Module, which names the environment too, and flags of each row of the table.
PEERS = {
    "pg_mpi": ["ours"],
    "pg_mpi_fast": ["ours", "--preset", "fast"],
    "pg_mpi_karpathy": ["ours", "--preset", "karpathy"],
    "sb3": ["sb3"],
    "cleanrl_envpool": ["cleanrl_envpool"],
    "cleanrl_envpool_pong": ["cleanrl_envpool", "--settings", "pong"],
    "sample_factory": ["sample_factory"],
    "rllib": ["rllib"],
    "oracle": ["oracle"],
}


def _cpu_seconds():
    """CPU seconds used on this machine since it started (Linux)."""
    user, nice, system, _, _, interrupts, soft, stolen = map(int, Path("/proc/stat").read_text().split()[1:9])
    return (user + nice + system + interrupts + soft + stolen) / os.sysconf("SC_CLK_TCK")


def busy(seconds=5.0):
    """Mean number of cores in use over ``seconds``."""
    before = _cpu_seconds()
    time.sleep(seconds)
    return (_cpu_seconds() - before) / seconds


def train(name, args):
    """Run one peer. Returns its exit status."""
    module, *flags = PEERS[name]
    out, log = table.RESULTS / f"{name}.jsonl", ENVIRONMENTS / f"{name}.log"
    command = ["timeout", "--signal=KILL", str(args.seconds + PATIENCE), ENVIRONMENTS / module / "bin" / "python"]
    command += ["-m", f"scaling.peers.{module}", "--seconds", str(args.seconds), "--seed", str(args.seed)]
    for old in (out, out.with_suffix(".json")):
        old.unlink(missing_ok=True)
    load = busy()
    print(f"{name}: {args.seconds:g} s, other processes use {load:.2f} cores", flush=True)
    with open(log, "w", encoding="utf-8") as file:
        line = [*command, "--out", out, *flags]
        status = subprocess.run(line, cwd=ROOT, stdout=file, stderr=subprocess.STDOUT).returncode
    if status:
        print(f"{name} failed with exit status {status}, see {log}")
        return status
    about = json.loads(out.with_suffix(".json").read_text()) | {"busy_before": round(load, 2)}
    out.with_suffix(".json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("peers", nargs="*", metavar="PEER", help=f"peers to run: {', '.join(PEERS)} (default: all)")
    parser.add_argument("--seconds", type=float, required=True, help="wall-clock seconds of each peer")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    names = args.peers or list(PEERS)
    missing = {PEERS[name][0] for name in names if not (ENVIRONMENTS / PEERS[name][0] / "bin").exists()}
    if missing:
        parser.error(f"not set up in {ENVIRONMENTS}: run scaling/peers/setup.sh {' '.join(sorted(missing))}")
    failed = [name for name in names if train(name, args)]
    table.main()
    return bool(failed)


if __name__ == "__main__":
    raise SystemExit(main())
