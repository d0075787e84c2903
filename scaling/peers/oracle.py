"""Karpathy's method, serial: ``examples/pong_serial.py``, one process, dense float64 numpy."""

import numpy as np

from examples import pong_serial
from scaling.peers.log import Log, arguments, versions


def main():
    args = arguments(__doc__).parse_args()
    log = Log(
        args,
        name="Karpathy's method, serial",
        settings=f"{pong_serial.HIDDEN} hidden units, 1 game an update, RMSProp at {pong_serial.RATE}",
        versions=versions("numpy", "ale-py"),
    )
    theta, steps = pong_serial.initial_weights(args.seed), 0
    for score, length in pong_serial.train(theta, np.zeros_like(theta), 10**9, args.seed):
        steps += length
        log.game(score)
        if log.steps(steps):
            return


if __name__ == "__main__":
    main()
