"""Serial oracle: the 2016 Pong policy gradient (Karpathy), dense, in float64, one process.

Independent of the package: it needs only numpy, ale_py and the standard library.
Policy, for an input x of shape (6400,), weights W1 (H, 6400) and W2 (H,), no biases:

    h = max(0, W1 x)        logit = W2 . h        p = 1 / (1 + exp(-logit)) = P(UP | x)

A game of T steps with inputs X (T, 6400), hidden states Hs (T, H) and choices y (T,), 1 for UP, has the
advantages A (T,) (discounted returns that restart at each reward, standardised over the game) and the gradient

    dlogit = (y - p) A      dW2 = Hs' dlogit      dHs = outer(dlogit, W2), 0 where Hs <= 0      dW1 = dHs' X

summed over the steps and over the games of one update. The update is RMSProp, uphill:
    cache <- decay cache + (1 - decay) g^2        W <- W + lr g / (sqrt(cache) + 1e-5)

The single-process original has 10 games per update and lr 1e-4; the defaults here are 1 and 1e-3.
Run as a script it measures its agent steps per second, learning included. Set OMP_NUM_THREADS=1 (and the
equivalent of other BLAS libraries) in the environment to measure one core.
"""

import argparse
import json
import time

import numpy as np
from ale_py import ALEInterface, LoggerMode, roms

INPUTS = 80 * 80
ROLE_WEIGHTS, ROLE_EMULATOR, ROLE_ACTIONS = 0, 1, 2
# Entries 2 and 3 of Pong's minimal action set, which is how the original numbers its actions: ALE's RIGHT (3)
# moves the paddle up, LEFT (4) down. ALE's own UP (2) and DOWN (5) leave it where it is.
UP, DOWN = 3, 4


def generator(seed, role, env):
    """Generator of one random stream."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(role, env))))


def initial_weights(seed, env, hidden):
    """W1 (H, 6400) and then W2 (H,), standard normal over the square root of the fan-in."""
    rng = generator(seed, ROLE_WEIGHTS, env)
    w1 = rng.standard_normal((hidden, INPUTS)) / np.sqrt(INPUTS)
    return w1, rng.standard_normal(hidden) / np.sqrt(hidden)


def preprocess(screen):
    """Screen (210, 160, 3) uint8 -> (6400,) float64 of 0 (background) and 1 (paddles, ball)."""
    red = screen[35:195:2, ::2, 0]
    return ((red != 0) & (red != 144) & (red != 109)).astype(np.float64).ravel()


def policy(x, w1, w2):
    """Hidden state h (H,) and the probability p of UP for one input x (6400,)."""
    h = np.maximum(w1 @ x, 0.0)
    return h, 1.0 / (1.0 + np.exp(-(w2 @ h)))


def advantages(rewards, gamma):
    """Rewards (T,) -> standardised discounted returns (T,).

    R_t = r_t + gamma R_{t+1}; the sum restarts at each reward (r_t != 0). Zeros for a game without reward.
    """
    returns, running = np.empty(len(rewards)), 0.0
    for t in reversed(range(len(rewards))):
        returns[t] = running = rewards[t] + gamma * (running if rewards[t] == 0 else 0.0)
    returns -= returns.mean()
    return returns / returns.std() if returns.any() else returns


def backward(xs, hs, dlogits, w2):
    """Gradients dW1 (H, 6400), dW2 (H,) from inputs (T, 6400), hidden states (T, H) and dlogit (T,)."""
    dhs = np.where(hs > 0, np.outer(dlogits, w2), 0.0)
    return dhs.T @ xs, hs.T @ dlogits


def game_gradient(frames_x, actions_y, rewards, w1, w2, gamma=0.99):
    """Gradient (dW1, dW2) of sum_t A_t log P(y_t | x_t) over one game, A held constant.

    frames_x (T, 6400) inputs, actions_y (T,) with 1 for UP and 0 for DOWN, rewards (T,).
    """
    hs, ps = zip(*(policy(x, w1, w2) for x in frames_x), strict=True)
    dlogits = (np.asarray(actions_y) - np.array(ps)) * advantages(rewards, gamma)
    return backward(np.asarray(frames_x), np.array(hs), dlogits, w2)


class Learner:
    """One emulator and one policy; `play_game` plays a game and learns from it.

    w1 (H, 6400), w2 (H,) and the RMSProp caches of the same shapes hold the state after the last update.
    One entry per game: scores (sum of rewards), lengths (agent steps T), actions ((T,) int8, 1 for UP).
    """

    def __init__(self, seed=0, env=0, w1=None, w2=None, hidden=200, learning_rate=1e-3, games_per_update=1,
                 gamma=0.99, decay=0.99, sticky=0.25, codes=(UP, DOWN)):  # fmt: skip
        if (w1 is None) != (w2 is None):
            raise ValueError("give both w1 and w2, or neither")
        weights = initial_weights(seed, env, hidden) if w1 is None else (w1, w2)
        self.w1, self.w2 = (np.array(w, dtype=np.float64) for w in weights)
        self.cache1, self.cache2 = np.zeros_like(self.w1), np.zeros_like(self.w2)
        self.buffer1, self.buffer2 = np.zeros_like(self.w1), np.zeros_like(self.w2)
        self.scores, self.lengths, self.actions = [], [], []
        self.learning_rate, self.games_per_update = learning_rate, games_per_update
        self.gamma, self.decay, self.codes = gamma, decay, codes
        self.rng = generator(seed, ROLE_ACTIONS, env)
        ALEInterface.setLoggerMode(LoggerMode.Error)
        self.ale = ALEInterface()
        words = np.random.SeedSequence(seed, spawn_key=(ROLE_EMULATOR, env)).generate_state(1)
        self.ale.setInt("random_seed", int(words[0] & 0x7FFFFFFF))
        self.ale.setInt("frame_skip", 4)
        self.ale.setFloat("repeat_action_probability", sticky)
        self.ale.setInt("max_num_frames_per_episode", 108000)
        self.ale.loadROM(roms.get_rom_path("pong"))

    def play_game(self):
        """Play a whole game, add its gradient to the buffer, and update after ``games_per_update`` games."""
        xs, hs, ps, ys, rewards, previous = [], [], [], [], [], None
        self.ale.reset_game()
        while not self.ale.game_over(with_truncation=True):
            frame = preprocess(self.ale.getScreenRGB())
            x, previous = np.zeros(INPUTS) if previous is None else frame - previous, frame
            h, p = policy(x, self.w1, self.w2)
            up = self.rng.random() < p
            rewards.append(float(self.ale.act(self.codes[0] if up else self.codes[1])))
            xs.append(x), hs.append(h), ps.append(p), ys.append(up)
        ys = np.array(ys, dtype=np.int8)
        dlogits = (ys - np.array(ps)) * advantages(rewards, self.gamma)
        dw1, dw2 = backward(np.array(xs), np.array(hs), dlogits, self.w2)
        self.buffer1 += dw1
        self.buffer2 += dw2
        self.scores.append(sum(rewards)), self.lengths.append(len(rewards)), self.actions.append(ys)
        if len(self.scores) % self.games_per_update == 0:
            self.update()

    def update(self):
        """Take one RMSProp step uphill with the buffered gradient, in place, and clear the buffer."""
        for w, cache, g in (self.w1, self.cache1, self.buffer1), (self.w2, self.cache2, self.buffer2):
            cache[:] = self.decay * cache + (1.0 - self.decay) * g**2
            w += self.learning_rate * g / (np.sqrt(cache) + 1e-5)
            g[:] = 0.0


def play_and_learn(games, seed=0, env=0, w1=None, w2=None, **options):
    """Play `games` whole games and return the learner. ``options``: see ``Learner``."""
    learner = Learner(seed, env, w1, w2, **options)
    for _ in range(games):
        learner.play_game()
    return learner


def main():
    """Play whole games until the time is over and print the speed. The last game is completed."""
    parser = argparse.ArgumentParser(description="Speed of the serial Pong policy gradient.")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    args = parser.parse_args()
    learner, start = Learner(args.seed), time.perf_counter()
    while (elapsed := time.perf_counter() - start) < args.seconds or not learner.scores:
        learner.play_game()
    games, steps, mean = len(learner.scores), sum(learner.lengths), float(np.mean(learner.scores))
    rate = steps / elapsed
    print(f"{games} games, {steps} steps, {elapsed:.1f} s, {rate:.1f} steps/s, mean score {mean:.2f}")
    if args.json:
        print(json.dumps({"steps_per_s": rate, "games": games, "steps": steps, "mean_score": mean}))


if __name__ == "__main__":
    main()
