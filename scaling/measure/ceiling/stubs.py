"""Stubs: each takes one part out of training and leaves the rest as it is. What they train is of no use."""

import contextlib

import numpy as np

from pg_mpi.policy.network import sample

FRAMES = 2000  # screens that a rank keeps at most: 67 MB


class StubEmulator:
    """In place of an ``AtariGame``: shows the screens of a recorded round again and again, whatever the action.

    A round longer than ``frames`` shows its first screens again; its scores and ends are those of the whole round.
    What is left of the emulator's cost is the copy of a screen. The env must stand where the round began, and does
    not any more afterwards.
    """

    def __init__(self, env, script, frames=FRAMES):
        game = env.game
        self.screen, self.acts = game.screen.copy(), 0
        self._rewards, self._ends, self._first = [], [], self.screen
        games, score, steps = [], env.score, env.steps
        self._screens = np.empty((min(frames, len(script.codes)), *game.screen.shape), dtype=game.screen.dtype)
        for t, code in enumerate(script.codes):
            self._rewards.append(game.act(code))
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

    def act(self, action):
        """The next recorded step, and its reward."""
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
        """Nothing to keep: its game is a recording."""
        return b""


class StubActions:
    """Around an ``AtariGame``: plays the recorded actions, whatever the policy says; ``restore`` starts again."""

    def __init__(self, game, script):
        self._game, self._codes, self._now, self.acts = game, script.codes, 0, 0

    def act(self, action):
        """The next recorded action."""
        code = self._codes[self._now]
        self._now += 1
        self.acts += 1
        return self._game.act(code)

    def restore(self, state):
        self._now = 0
        return self._game.restore(state)

    def __getattr__(self, name):
        return getattr(self._game, name)


class StubNetwork:
    """In place of a ``Network``: finds all actions equally good and every state worth nothing, without a look."""

    def __init__(self, actions):
        self._outputs = [0.0] * (actions + 1)

    def forward(self, observations):
        return [self._outputs.copy() for _ in observations]

    def act(self, observations, chances, preferences=None):
        outputs = self.forward(observations)
        return [(output.pop(), *sample(output, chance.random())) for output, chance in zip(outputs, chances)]

    def value(self, observation):
        return 0.0

    def flops(self, steps, active):
        return 0


class StubWorld:
    """Around a ``World``: with ``local`` set, the exchange is taken out and each rank stands for all of them.

    Its sums are then its own times the number of ranks, so that every minibatch keeps its size and every mean its
    meaning. Nothing is sent and nobody waits. Verbs that are not here stop the job rather than exchange unseen.
    """

    def __init__(self, world):
        self._world, self.local = world, False
        self.rank, self.size = world.rank, world.size

    def sum_(self, array):
        if not self.local:
            return self._world.sum_(array)
        array *= self.size
        return array

    def max_(self, array):
        return array if self.local else self._world.max_(array)

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
    """Within, the bench's envs play recorded screens. ``bench.put_back`` afterwards."""
    bench.rewind()
    stubs = [StubEmulator(env, script, FRAMES // len(scripts)) for env, script in zip(bench.envs, scripts)]
    with _games(bench.envs, stubs):
        yield stubs


@contextlib.contextmanager
def without_policy(bench, scripts):
    """Within, the bench plays recorded actions and never thinks.

    ``bench.rewind`` before each round, ``bench.put_back`` afterwards.
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
    """Within, the ranks of a ``StubWorld`` learn each for itself. ``bench.put_back`` afterwards."""
    world.local = True
    try:
        yield
    finally:
        world.local = False


@contextlib.contextmanager
def _games(envs, stubs):
    """Within, each env has another game."""
    games = [env.game for env in envs]
    for env, stub in zip(envs, stubs):
        env.game = stub
    try:
        yield
    finally:
        for env, game in zip(envs, games):
            env.game = game
