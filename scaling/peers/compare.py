"""Train with each peer for the same wall-clock time, then write the tables.

    python -m scaling.peers.compare --seconds 600 [PEER ...]

Run it on an idle machine, from the top of a checkout, with any Python. Each peer runs in its own environment, created
by ``scaling/peers/setup.sh``. The output of a peer goes to ``PEER.log`` beside the environments.
"""

import argparse
import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

from scaling.peers import table

ROOT = Path(__file__).parents[2]
ENVIRONMENTS = Path(os.environ.get("PEERS_DIR", ROOT / ".peers")).absolute()
BUSY = 0.1  # cores used by other processes, above which times are unreliable
PATIENCE = 600  # seconds that a peer may take to end after its time


class Peer(NamedTuple):
    """Module, environment and flags of one row of the table."""

    module: str
    environment: str
    flags: tuple = ()


PEERS = {
    "pg_mpi": Peer("ours", "pg_mpi"),
    "pg_mpi_fast": Peer("ours", "pg_mpi", ("--preset", "fast")),
    "pg_mpi_karpathy": Peer("ours", "pg_mpi", ("--preset", "karpathy")),
    "sb3": Peer("sb3", "sb3"),
    "cleanrl_envpool": Peer("cleanrl_envpool", "cleanrl_envpool"),
    "cleanrl_envpool_pong": Peer("cleanrl_envpool", "cleanrl_envpool", ("--settings", "pong")),
    "sample_factory": Peer("sample_factory", "sample_factory"),
    "rllib": Peer("rllib", "rllib"),
    "oracle": Peer("oracle", "oracle"),
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


def finish(process, seconds):
    """Wait for ``process`` and return its exit status. After ``seconds``, kill it and its children."""
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return -signal.SIGKILL
    finally:  # also after Ctrl-C, which its session does not receive
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def train(name, args):
    """Run one peer. Returns its exit status."""
    peer, out, log = PEERS[name], table.RESULTS / f"{name}.jsonl", ENVIRONMENTS / f"{name}.log"
    python = ENVIRONMENTS / peer.environment / "bin" / "python"
    command = [python, "-m", f"scaling.peers.{peer.module}", "--seconds", str(args.seconds)]
    command += ["--seed", str(args.seed), "--out", out, *peer.flags]
    load, facts = busy(), out.with_suffix(".json")
    for old in (out, facts):
        old.unlink(missing_ok=True)
    print(f"{name}: {args.seconds:g} s, other processes use {load:.2f} cores", flush=True)
    error = "interrupted"
    try:
        with open(log, "w", encoding="utf-8") as file:
            process = subprocess.Popen(command, cwd=ROOT, stdout=file, stderr=subprocess.STDOUT, start_new_session=True)
            status = finish(process, args.seconds + PATIENCE)
        error = f"exit status {status}" if status else None
    finally:
        about = json.loads(facts.read_text()) if facts.exists() else {"name": name}
        about["busy_before"] = round(load, 2)
        if error:
            about["error"] = error
            print(f"{name} failed, see {log}: {error}")
        facts.write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    return status


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("peers", nargs="*", metavar="PEER", help=f"peers to run: {', '.join(PEERS)} (default: all)")
    parser.add_argument("--seconds", type=float, required=True, help="wall-clock seconds of each peer")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--anyway", action="store_true", help="run even if other processes use the machine")
    args = parser.parse_args()
    for name in args.peers:
        if name not in PEERS:
            parser.error(f"no peer {name}: choose from {', '.join(PEERS)}")
    names = args.peers or list(PEERS)
    missing = {p.environment for p in map(PEERS.get, names) if not (ENVIRONMENTS / p.environment / "bin").exists()}
    if missing:
        parser.error(f"not set up in {ENVIRONMENTS}: run scaling/peers/setup.sh {' '.join(sorted(missing))}")
    if (load := busy()) > BUSY and not args.anyway:
        parser.error(f"other processes use {load:.2f} cores: wait, or give --anyway")
    failed = [name for name in names if train(name, args)]
    table.write()
    return bool(failed)


if __name__ == "__main__":
    raise SystemExit(main())
