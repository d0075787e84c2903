"""Learn Pong with a policy gradient: Karpathy's method of 2016 in numpy, one process per core, one file.

    mpirun -n 4 python -m mpi4py examples/pong_mpi.py --games 1000

A network sees the difference of two screens, x, and gives the probability p of moving the paddle up:

    h = max(0, W1 x)        p = 1 / (1 + exp(-W2 h))

It plays a whole game by sampling. Each action's return R is the sum of later rewards, discounted. After the game the
log-probability of each action taken is raised in proportion to its advantage, the standardised return:

    gradient = sum over the steps of  A_t  d log P(action_t | x_t) / dW,     A = (R - mean R) / std R

Weights follow the gradient by RMSProp. On one machine the same seed gives the same bits.
"""

import argparse
import time

import numpy as np
from ale_py import ALEInterface, LoggerMode, roms
from mpi4py import MPI

INPUTS, HIDDEN = 80 * 80, 200
DISCOUNT, DECAY, RATE = 0.99, 0.99, 1e-3
UP, DOWN = 3, 4  # in the ALE's numbering RIGHT moves Pong's paddle up and LEFT moves it down
WEIGHTS, EMULATOR, ACTIONS = range(3)  # random streams
comm = MPI.COMM_WORLD


def stream(seed, role, env=0):
    """A sequence of random numbers that no other seed, role or env shares."""
    return np.random.SeedSequence(seed, spawn_key=(role, env))


def initial_weights(seed):
    """All weights in one vector: W1 (200, 6400), then W2 (200,), scaled by the number of inputs."""
    normal = np.random.default_rng(stream(seed, WEIGHTS)).standard_normal
    return np.append(normal(HIDDEN * INPUTS) / np.sqrt(INPUTS), normal(HIDDEN) / np.sqrt(HIDDEN))


def views(theta):
    """W1 (H, 6400) and W2 (H,) as parts of the vector."""
    hidden = theta.size // (INPUTS + 1)
    return theta[:-hidden].reshape(hidden, INPUTS), theta[-hidden:]


def make_emulator(seed, env, sticky):
    """Pong with four frames a step. In each the last action is repeated with probability ``sticky``."""
    ALEInterface.setLoggerMode(LoggerMode.Error)
    ale = ALEInterface()
    ale.setInt("random_seed", int(stream(seed, EMULATOR, env).generate_state(1)[0] & 0x7FFFFFFF))
    ale.setInt("frame_skip", 4)
    ale.setFloat("repeat_action_probability", sticky)
    ale.setInt("max_num_frames_per_episode", 108_000)
    ale.loadROM(roms.get_rom_path("pong"))
    return ale


def preprocess(screen):
    """Crop the screen (210, 160, 3), take every second pixel: 1 for paddles and ball, 0 for background, (6400,)."""
    red = screen[35:195:2, ::2, 0]
    return ((red != 0) & (red != 144) & (red != 109)).astype(float).ravel()


def play(ale, theta, rng):
    """Play one game: inputs (T, 6400), hidden units (T, H), P(up) (T,), choices (T,), rewards (T,)."""
    w1, w2 = views(theta)
    steps, before = [], None
    ale.reset_game()
    while not ale.game_over():
        now = preprocess(ale.getScreenRGB())
        x, before = np.zeros(INPUTS) if before is None else now - before, now
        h = np.maximum(w1 @ x, 0.0)
        p = 1.0 / (1.0 + np.exp(-(w2 @ h)))
        up = rng.random() < p
        steps.append((x, h, p, up, ale.act(UP if up else DOWN)))
    return map(np.array, zip(*steps))


def advantages(rewards):
    """Standardised discounted returns (T,). The sum restarts at each point, which ends the effect of play before it."""
    returns, total = np.zeros(len(rewards)), 0.0
    for t in reversed(range(len(rewards))):
        returns[t] = total = rewards[t] + DISCOUNT * (total if rewards[t] == 0 else 0.0)
    returns -= returns.mean()
    return returns / returns.std() if returns.any() else returns


def gradient(theta, xs, hs, ps, ups, rewards):
    """Gradient of the sum of A log P(action) over a game, by backpropagation, as one vector."""
    w2 = views(theta)[1]
    dlogits = (ups - ps) * advantages(rewards)
    dhs = np.where(hs > 0, np.outer(dlogits, w2), 0.0)
    return np.append((dhs.T @ xs).ravel(), hs.T @ dlogits)


def train(theta, cache, games, seed=0, sticky=0.25, rate=RATE, games_per_update=1):
    """Update the weights in place, and the mean square of their gradients. Yields each game's score and steps."""
    env = comm.rank
    comm.Bcast(theta)
    ale, rng = make_emulator(seed, env, sticky), np.random.default_rng(stream(seed, ACTIONS, env))
    total = np.zeros_like(theta)
    for game in range(1, games + 1):
        *played, rewards = play(ale, theta, rng)
        total += gradient(theta, *played, rewards)
        if game % games_per_update == 0:
            comm.Allreduce(MPI.IN_PLACE, total)
            total /= comm.size
            cache[:] = DECAY * cache + (1.0 - DECAY) * total**2
            theta += rate * total / (np.sqrt(cache) + 1e-5)
            total[:] = 0.0
        score, length = comm.allreduce(np.array([rewards.sum(), len(rewards)]))
        yield score / comm.size, int(length)


def main():
    """Train, and print a line after each game."""
    parser = argparse.ArgumentParser(description="Learn Pong with a policy gradient.")
    parser.add_argument("--games", type=int, default=1000, help="games of each rank (default: 1000)")
    parser.add_argument("--seed", type=int, default=0, help="root of the random numbers (default: 0)")
    args = parser.parse_args()
    theta = initial_weights(args.seed)
    start, steps, scores = time.perf_counter(), 0, []
    for score, length in train(theta, np.zeros_like(theta), args.games, args.seed):
        scores, steps = [*scores, score][-100:], steps + length
        seconds, mean = time.perf_counter() - start, np.mean(scores)
        line = f"{seconds:6.0f} s {steps:9,} steps, score {score:+5.1f}, mean of the last 100 {mean:+.2f}"
        if comm.rank == 0:
            print(line, flush=True)


if __name__ == "__main__":
    main()
