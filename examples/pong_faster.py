"""Make ``pong_serial.py`` faster, one change at a time, and measure each: steps per second, learning included.

    OMP_NUM_THREADS=1 python examples/pong_faster.py --games 5

Every class below changes one thing of the one before it. All learn the same, but for rounding.
"""

import argparse
import statistics
import time
from pathlib import Path
from sys import path

import numpy as np
from scipy.sparse import csr_array

path.insert(0, str(Path(__file__).parent))
import pong_serial as serial  # noqa: E402 it lies beside this file, which may be started from anywhere


class AsItIs:
    """pong_serial.py: dense products in double precision."""

    dtype: type = np.float64

    def __init__(self, seed=0, sticky=0.25):
        self.ale = serial.make_emulator(seed, 0, sticky)
        self.rng = np.random.default_rng(serial.stream(seed, serial.ACTIONS))
        theta = serial.initial_weights(seed).astype(self.dtype)
        self.set_weights(*serial.views(theta))
        self.caches = [np.zeros_like(w) for w in self.weights]

    def set_weights(self, w1, w2):
        self.weights = [w1.copy(), w2.copy()]

    def screen(self):
        return serial.preprocess(self.ale.getScreenRGB()).astype(self.dtype)

    def difference(self, now, before):
        return now - before

    def forward(self, x):
        h = np.maximum(self.weights[0] @ x, 0)
        return h, 1 / (1 + np.exp(-(self.weights[1] @ h)))

    def backward(self, xs, dhs):
        """Gradient of W1 from the inputs of all steps and the gradients of their hidden units (T, H)."""
        return dhs.T @ np.array(xs)

    def play_and_learn(self):
        """Play one game and take one step: the game's score and steps."""
        xs, hs, dlogits, rewards, before = [], [], [], [], None
        self.ale.reset_game()
        while not self.ale.game_over():
            now = self.screen()
            x, before = self.difference(now, now if before is None else before), now
            h, p = self.forward(x)
            up = self.rng.random() < p
            rewards.append(self.ale.act(serial.UP if up else serial.DOWN))
            xs.append(x), hs.append(h), dlogits.append(up - p)
        hs, dlogits = np.array(hs), np.array(dlogits, self.dtype) * serial.advantages(rewards).astype(self.dtype)
        dhs = np.where(hs > 0, np.outer(dlogits, self.weights[1]), 0).astype(self.dtype)
        self.step([self.backward(xs, dhs), hs.T @ dlogits])
        return sum(rewards), len(rewards)

    def step(self, gradients):
        for w, cache, g in zip(self.weights, self.caches, gradients):
            cache[:] = serial.DECAY * cache + (1 - serial.DECAY) * g**2
            w += serial.RATE * g / (np.sqrt(cache) + 1e-5)


class SinglePrecision(AsItIs):
    """Numbers of 4 bytes: half the memory traffic."""

    dtype = np.float32


class PaletteScreen(SinglePrecision):
    """The emulator's own screen, one byte a pixel, in place of colours, and a table in place of comparisons."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.pixels = np.empty((210, 160), np.uint8)
        self.shown = np.ones(256, np.int8)
        self.shown[[0, 34, 228]] = 0  # palette indices of black and the two backgrounds

    def screen(self):
        self.ale.getScreen(self.pixels)
        return self.shown[self.pixels[35:195:2, ::2]].ravel()


class SkipZeros(PaletteScreen):
    """Sum the rows of W1' at the few pixels that changed, in place of 200 x 6,400 products."""

    def set_weights(self, w1, w2):
        self.weights = [np.ascontiguousarray(w1.T), w2.copy()]

    def difference(self, now, before):
        change = now - before
        changed = np.flatnonzero(change)
        return changed, change[changed].astype(self.dtype)

    def forward(self, x):
        changed, signs = x
        h = np.maximum(signs @ self.weights[0][changed], 0)
        return h, 1 / (1 + np.exp(-(self.weights[1] @ h)))

    def backward(self, xs, dhs):
        dense = np.zeros((len(xs), serial.INPUTS), self.dtype)
        for row, (changed, signs) in zip(dense, xs):
            row[changed] = signs
        return dense.T @ dhs


class SparseGradient(SkipZeros):
    """A sparse product for the gradient too."""

    def backward(self, xs, dhs):
        ends = np.cumsum([0, *(len(changed) for changed, _ in xs)])
        changed, signs = (np.concatenate(parts) for parts in zip(*xs))
        return csr_array((signs, changed, ends), shape=(len(xs), serial.INPUTS)).T @ dhs


STAGES = [AsItIs, SinglePrecision, PaletteScreen, SkipZeros, SparseGradient]


class Emulator(AsItIs):
    """The emulator alone, with random actions: no program can be faster."""

    def play_and_learn(self):
        self.ale.reset_game()
        steps = 0
        while not self.ale.game_over():
            self.ale.act(serial.UP if self.rng.random() < 0.5 else serial.DOWN)
            steps += 1
        return 0, steps


def main():
    """Measure all stages in turns, so that a slow minute of the machine slows them alike."""
    parser = argparse.ArgumentParser(description="Measure changes that make pong_serial.py faster.")
    parser.add_argument("--games", type=int, default=5, help="games of each (default: 5)")
    args = parser.parse_args()
    players = [stage() for stage in [*STAGES, Emulator]]
    speeds = [[] for _ in players]
    for _ in range(args.games):
        for player, found in zip(players, speeds):
            start = time.perf_counter()
            _, steps = player.play_and_learn()
            found.append(steps / (time.perf_counter() - start))
    medians = [statistics.median(found) for found in speeds]
    print(f"{'':16} steps/s   faster than before   share of the emulator")
    for player, speed, before in zip(players, medians, [medians[0], *medians]):
        name = type(player).__name__
        gain = "" if name == "Emulator" else f"{speed / before:.2f}"
        print(f"{name:16} {speed:7,.0f} {gain:>20} {speed / medians[-1]:22.0%}")


if __name__ == "__main__":
    main()
