"""Play $GAMES games on each rank with ``examples/pong_mpi.py`` and save every rank's weights in $FOLDER."""

import os

import numpy as np

from examples import pong_mpi

theta = pong_mpi.initial_weights(4 + pong_mpi.comm.rank)  # rank 0's are broadcast
for _ in pong_mpi.train(theta, np.zeros_like(theta), int(os.environ["GAMES"]), 4):
    pass
np.save(f"{os.environ['FOLDER']}/{pong_mpi.comm.rank}.npy", theta)
