"""Compare the weights that two versions of this repository train: ``make same-bits BASE=commit``.

Train the work tree and BASE with each preset, and compare the weights of the last checkpoints bit for bit. Print the
CRC-32 of the weights for each preset. Exit with 1 if any differ.
"""

import argparse
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

import numpy as np
from jobs import ROOT, command, run

STEPS = 24_000  # about 20 updates of two ranks; some games end

CASES = {name: ["--preset", name] for name in ("default", "fast", "pong", "karpathy")} | {
    "replay": ["--replay"],
    "reproducible": ["--preset", "fast", "--reproducible"],
    "CartPole": ["--env-id", "CartPole-v1"],
}


def checkout(commit, folder):
    """Extract the files of a commit into ``folder`` and compile the library."""
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, capture_output=True).stdout
    subprocess.run(["tar", "-xf", "-"], cwd=folder, check=True, input=archive)
    build(folder)


def build(folder):
    subprocess.run([sys.executable, "setup.py", "-q", "build_ext", "--inplace"], cwd=folder, check=True)


def weights(tree, flags):
    """Train with the code in ``tree`` and return the CRC-32 of the weights."""
    with tempfile.TemporaryDirectory() as folder:
        line = command(2, "pg_mpi.train", *flags, "--run-dir", folder, "--total-timesteps", STEPS)
        result = run(line, tree, limit=600)
        if result.returncode:
            raise SystemExit(f"{tree}: {' '.join(flags)}\n{result.stderr}")
        newest = max(Path(folder).glob("checkpoints/*.npz"))
        with np.load(newest) as arrays:
            return zlib.crc32(arrays["theta"].tobytes())


def main():
    parser = argparse.ArgumentParser(prog="make same-bits", description=__doc__.splitlines()[0])
    parser.add_argument("base", help="a commit")
    parser.add_argument("--cases", default=",".join(CASES), help="default: all of %(default)s")
    args = parser.parse_args()
    differing = 0
    build(ROOT)
    with tempfile.TemporaryDirectory() as base:
        checkout(args.base, base)
        for name in args.cases.split(","):
            before, now = (weights(tree, CASES[name]) for tree in (base, ROOT))
            differing += before != now
            print(f"{name:14}{before:08x}  {now:08x}  {'same' if before == now else 'DIFFERS'}", flush=True)
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
