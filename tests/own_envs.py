"""Environments that go right and wrong, for ``--env-id own_envs:NAME``."""

import numpy as np
from gymnasium import spaces


class Base:
    """Ten steps of nothing."""

    observation_space = spaces.Box(-1, 1, (2,))
    action_space = spaces.Discrete(2)

    def reset(self, seed=None):
        self.steps = 0
        return self.see(), {}

    def step(self, action):
        self.steps += 1
        return self.see(), self.pay(), self.steps == 10, False, {}

    def see(self):
        return np.zeros(self.observation_space.shape)

    def pay(self):
        return 0.0


class Endless(Base):
    """A random walk that never ends."""

    def reset(self, seed=None):
        self.rng, self.place = np.random.default_rng(seed), 0.0
        return super().reset(seed)

    def see(self):
        return np.array([self.place, 1.0])

    def step(self, action):
        self.place = 0.9 * self.place + (0.1 if action else -0.1) + 0.1 * self.rng.standard_normal()
        return self.see(), self.place, False, False, {}


class Hiding(Base):
    """Its state is where nobody looks."""

    def reset(self, seed=None):
        self.hidden = iter(np.random.default_rng(seed).random(100))
        return super().reset(seed)

    def see(self):
        return np.full(2, next(self.hidden))


class Square(Base):
    """Observations of two axes, and one action with bounds and one without."""

    observation_space = spaces.Box(0, 5, (2, 3))
    action_space = spaces.Box(np.array([-2.0, -np.inf]), np.array([2.0, np.inf]), dtype=np.float64)

    def see(self):
        return np.arange(6).reshape(2, 3)

    def step(self, action):
        self.taken = action
        return super().step(action)


class Tupled(Base):
    observation_space = spaces.Tuple((spaces.Discrete(2), spaces.Discrete(3)))


class Texting(Base):
    action_space = spaces.Text(5)


class Alone(Base):
    action_space = spaces.Discrete(1)


class NanReward(Base):
    def pay(self):
        return float("nan") if self.steps == 5 else 0.0


class NanSeen(Base):
    def see(self):
        return np.array([0.0, np.inf if self.steps == 5 else 1.0])


class Reshaped(Base):
    def see(self):
        return np.zeros(3 if self.steps == 5 else 2)


class LateNan(Base):
    """Longer than the look that is taken at an environment before a run."""

    count = 0

    def pay(self):
        LateNan.count += 1
        return float("nan") if LateNan.count == 1500 else 0.0


class LateShape(Base):
    count = 0

    def see(self):
        LateShape.count += 1
        return np.zeros(3 if LateShape.count == 1500 else 2)


class Binary(Base):
    observation_space = spaces.MultiBinary(5)


class Deciding(Base):
    action_space = spaces.MultiBinary(4)


class Whole(Base):
    """Actions that are whole numbers, in a Box."""

    action_space = spaces.Box(0, 5, (2,), dtype=np.int64)


class Late(Base):
    """An attribute that is not there before the first step."""

    def step(self, action):
        self.last = action
        return super().step(action)

    def see(self):
        return np.full(2, float(getattr(self, "last", 0)))


class Later(Base):
    """An attribute that is not there before the fortieth step of a game."""

    def step(self, action):
        if self.steps == 40:
            self.bonus = 5.0
        return *super().step(action)[:2], self.steps == 100, False, {}

    def see(self):
        return np.full(2, getattr(self, "bonus", 0.0) + self.steps - 6.0 * (self.steps > 40))


class Lost(Base):
    """Half of it is plain data, and the other half is not: one put into another breaks."""

    def reset(self, seed=None):
        self.place, self.board = 0, {0: 0.5}  # its keys are no words
        return super().reset(seed)

    def see(self):
        return np.full(2, self.board[self.place])

    def step(self, action):
        self.place += 1
        self.board[self.place] = self.board[self.place - 1]
        return self.see(), 0.0, self.place == 7, False, {}


class Refusal(Exception):
    """It can be pickled, and not be unpickled."""

    def __init__(self, seats, licence):
        super().__init__(f"no licence for {seats} seats")


class Refusing(Base):
    def __init__(self):
        raise Refusal(3, None)


class Stateless(Base):
    """Its own verbs are wrong."""

    def state(self):
        return 1 / 0

    def restore(self, state):
        """Nothing."""


class Four(Base):
    """Its step gives four things, as before Gymnasium."""

    def step(self, action):
        return super().step(action)[:4]


class Bare(Base):
    """Its reset gives the observation alone, likewise."""

    def reset(self, seed=None):
        return super().reset(seed)[0]


class NoReward(Base):
    def pay(self):
        return None if self.steps == 5 else 0.0


class Ragged(Base):
    def see(self):
        return [[0.0], [1.0, 2.0]] if self.steps == 5 else [0.0, 1.0]


class Odd(Base):
    """Attributes named as wrappers have them."""

    def __init__(self):
        self.env = self

    def pay(self):
        return 1.0


class Vast(Base):
    """A table of prices."""

    def __init__(self):
        self.prices = np.zeros(10**6)


class HalfBound(Base):
    action_space = spaces.Box(np.array([0.0, -1.0]), np.array([np.inf, 1.0]), dtype=np.float64)

    def step(self, action):
        self.taken = action
        return super().step(action)


class Faulty(Base):
    """Raises long after the look that is taken at it before a run, and then now and again."""

    count = 0

    def pay(self):
        Faulty.count += 1
        if Faulty.count > 1500 and Faulty.count % 3 == 0:
            raise LookupError("no such price")
        return 0.0
