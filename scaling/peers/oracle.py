"""Karpathy's method, serial: ``examples/pong_serial.py``, one process, dense float64 numpy."""

import importlib.util
from pathlib import Path

import numpy as np

from scaling.peers.log import Log, arguments, versions

EXAMPLE = Path(__file__).parents[2] / "examples" / "pong_serial.py"
GAME = {
    "emulator": "ale-py, Pong",
    "frame skip": "4, last frame",
    "sticky actions": "0.25",
    "start": "at once",
    "actions": "2 (up, down)",
    "observation": "80x80 binary, difference of two",
    "reward": "as given",
    "longest game": "108,000 frames",
}


def load():
    """Load the example by path: examples are not a package."""
    spec = importlib.util.spec_from_file_location("pong_serial", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main():
    args = arguments(__doc__).parse_args()
    example = load()
    log = Log(
        args,
        name="Karpathy's method, serial",
        settings=f"{example.HIDDEN} hidden units, 1 game an update, RMSProp at {example.RATE}",
        game=GAME,
        versions=versions("numpy", "ale-py"),
    )
    theta, steps = example.initial_weights(args.seed), 0
    for score, length in example.train(theta, np.zeros_like(theta), 10**9, args.seed):
        steps += length
        log.game(score)
        if log.steps(steps):
            return


if __name__ == "__main__":
    main()
