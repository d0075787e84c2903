"""Stubs that replace one part of training and leave the rest unchanged. Their training is meaningless."""

import contextlib

import numpy as np

from pg_mpi.policy.network import draw

FRAMES = 2000  # most screens that a rank keeps: 67 MB


class StubEmulator:
    """Replaces an ``AtariGame``: repeats the screens of a recorded round, independent of the action.

    A round longer than ``frames`` repeats its first screens; its scores and ends are those of the whole round.
    The remaining cost of the emulator is the copy of a screen. The env must be at the start of the round; the
    constructor steps it.
    """

    def __init__(self, env, script, frames=FRAMES):
        game = env.game
        self.screen, self.acts = game.screen.copy(), 0
        self._rewards, self._ends, self._first = [], [], self.screen
        games, score, steps = [], env.score, env.steps
        self._screens = np.empty((min(frames, len(script.codes)), *game.screen.shape), dtype=game.screen.dtype)
        for t, code in enumerate(script.codes):
            self._rewards.append(game.step(code))
            self._ends.append(game.over())
            if t < len(self._screens):
                self._screens[t] = game.screen
            score, steps = score + self._rewards[-1], steps + 1
            if self._ends[-1]:
                games.append((score, steps))
                score = steps = 0
                game.reset()
                self._first = game.screen.copy()
        script.check(games, score, steps)

    def step(self, action):
        """Play the next recorded step. Returns its reward."""
        self._now = self.acts % len(self._rewards)
        self.screen[...] = self._screens[self._now % len(self._screens)]
        self.acts += 1
        return self._rewards[self._now]

    def over(self):
        return self._ends[self._now]

    def truncated(self):
        return False

    def reset(self):
        self.screen[...] = self._first

    def state(self):
        """Empty: the game is a recording."""
        return b""


class StubActions:
    """Wraps an ``AtariGame``: plays the recorded actions, independent of the policy. ``restore`` starts again."""

    def __init__(self, game, script):
        self._game, self._codes, self._now, self.acts = game, script.codes, 0, 0

    def step(self, action):
        """Play the next recorded action."""
        code = self._codes[self._now]
        self._now += 1
        self.acts += 1
        return self._game.step(code)

    def restore(self, state):
        self._now = 0
        return self._game.restore(state)

    def __getattr__(self, name):
        return getattr(self._game, name)


class StubNetwork:
    """Replaces a ``Network``: equal logits and value 0 for every observation."""

    def __init__(self, actions):
        self._outputs = [0.0] * (actions + 1)

    def forward(self, observations):
        return [self._outputs.copy() for _ in observations]

    def sample(self, observations, generators, preferences=None):
        outputs = self.forward(observations)
        return [(output.pop(), *draw(output, rng.random())) for output, rng in zip(outputs, generators)]

    def value(self, observation):
        return 0.0

    def flops(self, steps, active):
        return 0


class StubWorld:
    """Wraps a ``World``: with ``local`` set there is no exchange, and each rank stands for all of them.

    Its sums are then its own times the number of ranks, so minibatch sizes and means stay correct. Nothing is sent
    and no rank waits. Other methods raise ``RuntimeError`` instead of exchanging.
    """

    def __init__(self, world):
        self._world, self._parts, self._local = world, (), False
        self.rank, self.size, self.divides = world.rank, world.size, world.divides

    @property
    def local(self):
        return self._local

    @local.setter
    def local(self, local):
        for world in (self, *self._parts):
            world._local = local

    def split(self, each):
        self._parts = tuple(map(StubWorld, self._world.split(each)))
        return self._parts

    def share(self, shape, dtype):
        return self._world.share(shape, dtype)

    def sum_rows(self, rows, part, out):
        if not self.local:
            return self._world.sum_rows(rows, part, out)
        return np.multiply(rows[self.rank, part], self.size, out=out)

    def sum_(self, array):
        if not self.local:
            return self._world.sum_(array)
        array *= self.size
        return array

    def max_(self, array):
        return array if self.local else self._world.max_(array)

    def merge_(self, array, function):
        return array if self.local else self._world.merge_(array, function)

    def any(self, *flags):
        return list(map(bool, flags)) if self.local else self._world.any(*flags)

    def barrier(self):
        if not self.local:
            self._world.barrier()

    def gather_all(self, item):
        return [item] * self.size if self.local else self._world.gather_all(item)

    def clock(self):
        return self._world.clock()

    def cpu_clock(self):
        return self._world.cpu_clock()

    def __getattr__(self, verb):
        if self.local:
            raise RuntimeError(f"the stub of the exchange has no {verb}")
        return getattr(self._world, verb)


@contextlib.contextmanager
def without_emulator(bench, scripts):
    """Context in which the bench's envs play recorded screens. Call ``bench.put_back`` afterwards."""
    bench.rewind()
    stubs = [StubEmulator(env, script, FRAMES // len(scripts)) for env, script in zip(bench.envs, scripts)]
    with _games(bench.envs, stubs):
        yield stubs


@contextlib.contextmanager
def without_policy(bench, scripts):
    """Context in which the bench plays recorded actions without inference.

    Call ``bench.rewind`` before each round and ``bench.put_back`` afterwards.
    """
    policy, stubs = bench.policy, [StubActions(env.game, script) for env, script in zip(bench.envs, scripts)]
    network = StubNetwork(policy.actions)
    with _games(bench.envs, stubs):
        policy.expand, policy.refresh = lambda: network, lambda *_: None
        bench.put_back()
        try:
            yield stubs
        finally:
            del policy.expand, policy.refresh


@contextlib.contextmanager
def without_exchange(world):
    """Context in which the ranks of a ``StubWorld`` learn independently. Call ``bench.put_back`` afterwards."""
    world.local = True
    try:
        yield
    finally:
        world.local = False


@contextlib.contextmanager
def _games(envs, stubs):
    """Context in which each env has another game."""
    games = [env.game for env in envs]
    for env, stub in zip(envs, stubs):
        env.game = stub
    try:
        yield
    finally:
        for env, game in zip(envs, games):
            env.game = game
