"""Correct and faulty environments for ``--env-id own_envs:NAME``."""

import multiprocessing
import time

import numpy as np
from gymnasium import spaces


class Base:
    """Ten steps, with observations and rewards of 0."""

    observation_space = spaces.Box(-1, 1, (2,))
    action_space = spaces.Discrete(2)

    def reset(self, seed=None):
        self.steps = 0
        return self.observe(), {}

    def step(self, action):
        self.steps += 1
        return self.observe(), self.reward(), self.steps == 10, False, {}

    def observe(self):
        return np.zeros(self.observation_space.shape)

    def reward(self):
        return 0.0


class Drawn(Base):
    """Renders a picture of 8 x 10 pixels."""

    def render(self):
        return np.full((8, 10, 3), 25 * self.steps, np.uint8)


class Endless(Base):
    """A random walk that never terminates."""

    def reset(self, seed=None):
        self.rng, self.position = np.random.default_rng(seed), 0.0
        return super().reset(seed)

    def observe(self):
        return np.array([self.position, 1.0])

    def step(self, action):
        self.position = 0.9 * self.position + (0.1 if action else -0.1) + 0.1 * self.rng.standard_normal()
        return self.observe(), self.position, False, False, {}


class Slow(Endless):
    """A step takes two milliseconds, without work."""

    def step(self, action):
        time.sleep(0.002)
        return super().step(action)


class HiddenState(Base):
    """The state is an iterator, which cannot be saved."""

    def reset(self, seed=None):
        self.hidden = iter(np.random.default_rng(seed).random(100))
        return super().reset(seed)

    def observe(self):
        return np.full(2, next(self.hidden))


class BoxSpaces(Base):
    """Observations have two axes. One number of the action is bounded, the other is not."""

    observation_space = spaces.Box(0, 5, (2, 3))
    action_space = spaces.Box(np.array([-2.0, -np.inf]), np.array([2.0, np.inf]), dtype=np.float64)

    def observe(self):
        return np.arange(6).reshape(2, 3)

    def step(self, action):
        self.received = action
        return super().step(action)


class WidestBounds(BoxSpaces):
    """The difference of the bounds is infinite."""

    action_space = spaces.Box(-np.finfo(np.float32).max, np.finfo(np.float32).max, (1,))


class TupleObservation(Base):
    observation_space = spaces.Tuple((spaces.Discrete(2), spaces.Discrete(3)))


class TextAction(Base):
    action_space = spaces.Text(5)


class OneAction(Base):
    action_space = spaces.Discrete(1)


class NanReward(Base):
    def reward(self):
        return float("nan") if self.steps == 5 else 0.0


class InfiniteObservation(Base):
    def observe(self):
        return np.array([0.0, np.inf if self.steps == 5 else 1.0])


class ShapeChange(Base):
    def observe(self):
        return np.zeros(3 if self.steps == 5 else 2)


class LateNanReward(Base):
    """Gives a NaN reward after the trial that precedes a run."""

    count = 0

    def reward(self):
        LateNanReward.count += 1
        return float("nan") if LateNanReward.count == 1500 else 0.0


class LateShapeChange(Base):
    """Changes the shape after the trial that precedes a run."""

    count = 0

    def observe(self):
        LateShapeChange.count += 1
        return np.zeros(3 if LateShapeChange.count == 1500 else 2)


class BinaryObservation(Base):
    observation_space = spaces.MultiBinary(5)


class BinaryAction(Base):
    action_space = spaces.MultiBinary(4)


class IntegerAction(Base):
    """The actions are a Box of integers."""

    action_space = spaces.Box(0, 5, (2,), dtype=np.int64)


class FirstStepAttribute(Base):
    """The first step sets a new attribute."""

    def step(self, action):
        self.last = action
        return super().step(action)

    def observe(self):
        return np.full(2, float(getattr(self, "last", 0)))


class LateAttribute(Base):
    """Step 40 of an episode sets a new attribute."""

    def step(self, action):
        if self.steps == 40:
            self.bonus = 5.0
        return *super().step(action)[:2], self.steps == 100, False, {}

    def observe(self):
        return np.full(2, getattr(self, "bonus", 0.0) + self.steps - 6.0 * (self.steps > 40))


class PartlySaved(Base):
    """Only ``position`` can be saved, and ``board`` does not follow it."""

    def reset(self, seed=None):
        self.position, self.board = 0, {0: 0.5}  # a dict with integer keys is not saved
        return super().reset(seed)

    def observe(self):
        return np.full(2, self.board[self.position])

    def step(self, action):
        self.position += 1
        self.board[self.position] = self.board[self.position - 1]
        return self.observe(), 0.0, self.position == 7, False, {}


class LicenceError(Exception):
    """An exception that can be pickled but not unpickled."""

    def __init__(self, seats, licence):
        super().__init__(f"no licence for {seats} seats")


class UnpicklableError(Base):
    """The constructor raises an exception that cannot be unpickled."""

    def __init__(self):
        raise LicenceError(3, None)


class BrokenState(Base):
    """``state`` raises."""

    def state(self):
        return 1 / 0

    def restore(self, state):
        """Restore nothing."""


class FourTuple(Base):
    """``step`` returns four values, as in Gym before 0.26."""

    def step(self, action):
        return super().step(action)[:4]


class BareReset(Base):
    """``reset`` returns only the observation, as in Gym before 0.26."""

    def reset(self, seed=None):
        return super().reset(seed)[0]


class NoneReward(Base):
    def reward(self):
        return None if self.steps == 5 else 0.0


class RaggedObservation(Base):
    def observe(self):
        return [[0.0], [1.0, 2.0]] if self.steps == 5 else [0.0, 1.0]


class WrapperAttribute(Base):
    """An attribute has the name of a wrapper's attribute."""

    def __init__(self):
        self.env = self

    def reward(self):
        return 1.0


class LargeState(Base):
    """The state is an array of eight megabytes."""

    def __init__(self):
        self.prices = np.zeros(10**6)


class OneSidedBounds(Base):
    """Each number of the action has bounds: one on one side, the other on both."""

    action_space = spaces.Box(np.array([0.0, -1.0]), np.array([np.inf, 1.0]), dtype=np.float64)

    def step(self, action):
        self.received = action
        return super().step(action)


class LateError(Base):
    """Raises at every third step after the trial that precedes a run."""

    count = 0

    def reward(self):
        LateError.count += 1
        if LateError.count > 1500 and LateError.count % 3 == 0:
            raise LookupError("no such price")
        return 0.0


class Truncating(Base):
    """Observes the number of steps. The reward is 1 per step. A time limit truncates after four steps."""

    def observe(self):
        return np.array([self.steps, 0])

    def step(self, action):
        self.steps += 1
        return self.observe(), 1.0, False, self.steps == 4, {}


class Terminating(Truncating):
    """The same, but the third step terminates the episode."""

    def step(self, action):
        self.steps += 1
        return self.observe(), 1.0, self.steps == 3, False, {}


class LateObjects(Base):
    """From step 40 on, a list that was empty holds objects, as a game whose enemies appear late."""

    def reset(self, seed=None):
        self.enemies = []
        return super().reset(seed)

    def step(self, action):
        observation, reward, *_ = super().step(action)
        if self.steps >= 40:
            self.enemies.append(object())
        return observation, reward, self.steps == 100, False, {}


class ClassDefault(Base):
    """An attribute of the class, which a step sets in the object from step 40 on."""

    wins = 0

    def step(self, action):
        observation, reward, *_ = super().step(action)
        self.wins += self.steps >= 40
        return observation, reward, self.steps == 100, False, {}

    def observe(self):
        return np.full(2, self.wins / 100)


class Simulator(Base):
    """A process of its own, which ``close`` ends by a signal."""

    def __init__(self):
        self.ours, theirs = multiprocessing.get_context("fork").Pipe()
        self.process = multiprocessing.get_context("fork").Process(target=self._serve, args=(theirs,))
        self.process.start()

    def _serve(self, pipe):
        while True:
            pipe.send(pipe.recv())

    def observe(self):
        self.ours.send(0.5)
        return np.full(2, self.ours.recv())

    def close(self):
        self.process.terminate()
        self.process.join()


class SimulatorWithoutReward(Simulator):
    """A reward that is not finite in step 1000, after the trial."""

    taken = 0

    def step(self, action):
        observation, reward, *rest = super().step(action)
        self.taken += 1
        return observation, np.nan if self.taken == 1000 else reward, *rest


class BrokenSimulator(Simulator):
    """``reset`` raises after the process was started."""

    def reset(self, *, seed=None, options=None):
        raise RuntimeError("no licence")
