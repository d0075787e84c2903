"""Karpathy's method as in the 2016 ancestor: dense float64 products on every rank, gradients summed after each game.

pg_mpi's policies are sparse and hardly call BLAS, so they do not show the effect of BLAS threads. This baseline
represents programs dominated by dense products: 200 x 6,400 per step, and again for the gradient of a game.
``scaling.measure.threads`` starts it:

    python -m scaling.measure.dense_baseline FILE SECONDS
"""

import sys
from time import monotonic

import numpy as np

from pg_mpi.config.random_streams import ACTIONS, STICKY, WEIGHTS, stream
from pg_mpi.env.action_set import choose
from pg_mpi.env.atari import AtariGame
from pg_mpi.env.calibration import find_scene
from pg_mpi.features.difference import POSITIONS, DifferenceEncoder
from pg_mpi.files.atomic_file import write_json
from pg_mpi.learning.advantages import discounted_returns, standardise
from pg_mpi.learning.optimizer import RMSProp
from pg_mpi.learning.phases import PhaseTimer
from pg_mpi.mpi import pinning, process

GAME, HIDDEN = "ALE/Pong-v5", 200


class Dense:
    """One rank's game, policy and optimizer."""

    def __init__(self, world, phases):
        self._world, self._phases = world, phases
        rng = stream(0, WEIGHTS)
        self._theta = np.concatenate((rng.standard_normal(HIDDEN * POSITIONS) / 80, rng.standard_normal(HIDDEN) / 14))
        self._optimizer = RMSProp(self._theta.size, dtype=np.float64)
        self._uniform = stream(0, ACTIONS, world.rank).random
        self._game = AtariGame(GAME, stream(0, STICKY, world.rank))
        self._encoder = DifferenceEncoder(world.on_root(find_scene, GAME)[0])
        self._codes = choose("RIGHT,LEFT", GAME, 4)  # up and down
        self._observation = self._encoder.start(self._game.screen)

    def weights(self):
        """Views of the layers: (HIDDEN, POSITIONS) and (HIDDEN,)."""
        return self._theta[:-HIDDEN].reshape(HIDDEN, POSITIONS), self._theta[-HIDDEN:]

    def play(self, until):
        """Play one game, or until a time: inputs, hidden, choices minus probabilities, rewards."""
        first, last = self.weights()
        inputs, hidden, misses, rewards = [], [], [], []
        while monotonic() < until:
            with self._phases("features"):
                x = np.zeros(POSITIONS)
                x[self._observation % POSITIONS] = np.where(self._observation < POSITIONS, 1.0, -1.0)
            with self._phases("inference"):
                h = np.maximum(first @ x, 0)
                up = 1 / (1 + np.exp(-(last @ h)))
            choice = int(self._uniform() < up)
            with self._phases("emulator"):
                rewards.append(self._game.step(self._codes[1 - choice]))
                over = self._game.over()
                if over:
                    self._game.reset()
            with self._phases("features"):
                screen = self._game.screen
                self._observation = self._encoder.start(screen) if over else self._encoder.step(screen)
            inputs.append(x)
            hidden.append(h)
            misses.append(choice - up)
            if over:
                break
        return inputs, hidden, misses, rewards

    def learn(self, inputs, hidden, misses, rewards):
        """Sum the game's gradient over ranks and take an optimizer step. Collective: every rank must call this."""
        gradient = np.zeros_like(self._theta)
        if rewards:
            with self._phases("gradient"):
                advantages = standardise(discounted_returns(rewards, np.array(rewards) != 0, 0.99))
                d_out = np.array(misses) * advantages
                h = np.array(hidden)
                gradient[-HIDDEN:] = h.T @ d_out
                d_hidden = np.outer(d_out, self.weights()[1])
                d_hidden[h <= 0] = 0
                gradient[:-HIDDEN] = (d_hidden.T @ np.array(inputs)).ravel()
        with self._phases("wait"):
            self._world.barrier()
        with self._phases("allreduce"):
            self._world.sum_(gradient)
        with self._phases("optimizer"):
            gradient /= -self._world.size  # gradient ascent
            self._optimizer.step(self._theta, gradient, self._optimizer.state, 1e-3)


def main(world, argv):
    """Play and learn for some seconds and write the result. Collective: every rank must call this."""
    path, seconds = argv[0], float(argv[1])
    phases = PhaseTimer(monotonic)
    dense = Dense(world, phases)
    dense.learn(*dense.play(monotonic() + 1))  # warm-up of threads and network
    phases.clear()
    world.barrier()
    begun, steps, up = monotonic(), 0, False
    while not up:
        played = dense.play(begun + seconds)
        dense.learn(*played)
        steps += len(played[0])
        (up,) = world.any(monotonic() - begun >= seconds)
    span = monotonic() - begun
    totals = world.sum_(np.array([steps / span, *phases.seconds.values()]))
    if world.rank == 0:
        shares = dict(zip(phases.seconds, (totals[1:] / world.size / span).tolist()))
        write_json(path, {"sps": float(totals[0]), "threads_loaded": pinning.blas_threads(), "phase_share": shares})
    return 0


if __name__ == "__main__":
    process.run(main, sys.argv[1:])
