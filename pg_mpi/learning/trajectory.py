"""What one env lived through between two updates: written step by step, read as arrays when it is complete."""

from functools import cached_property

import numpy as np


class Trajectory:
    """Steps of one env in time order.

    Steps are kept as they come, in lists: beside an emulator's step an append is cheaper than a write into an array.
    The arrays are made when they are first asked for; nothing may be recorded after that.

    Attributes:
        length: how many steps.
        seen: the observation of each step, a list.
        observed: int32, the active inputs of all steps in one; ``counts`` int64 (length,): how many each step had.
        actions: int64 (length,), index into the policy's actions; or float (length, d) where an action is d numbers.
        log_probs: float64 (length,), log-probability of the action under the policy that drew it.
        values: float64 (length,), value estimate of the state before the step.
        rewards: float64 (length,), reward of the step, as the game gave it.
        ahead: list of (step, value): what would have come after the step, had nothing broken off, discounted.
        ends: bool (length,), no later reward counts for this step's return.
        last_value: value of the state after the last step, for returns that the update cuts.
        games: list of (score, steps) of the games that finished.
        cuts: after how many steps a game ended, or was lost.
        errors: how many emulators failed.
    """

    def __init__(self):
        self.seen, self._done, self._steps = [], [], []
        self.last_value, self.games, self.cuts, self.errors = 0.0, [], [], 0
        self.ahead = []

    def record(self, observation, action, log_prob, value, reward, end):
        """Append one step. ``observation``: what the policy saw, as the active inputs, int (n,); not copied."""
        self.seen.append(observation)
        self._done.append(action)
        self._steps.append((log_prob, value, reward, end))

    def foresee(self, value):
        """The last step was an end, but only for us: after it ``value`` would have come, discounted."""
        self.ahead.append((self.length - 1, value))

    def break_off(self, ahead):
        """Let the last step be an end, with ``ahead`` for what would have come after it."""
        if self._steps and not self.ended:
            self.foresee(ahead)
            self._steps[-1] = (*self._steps[-1][:-1], True)
        self.cuts.append(self.length)

    def end_game(self, score, steps):
        """A game has ended with the last step."""
        self.games.append((score, steps))
        self.cuts.append(self.length)

    @property
    def length(self):
        return len(self._steps)

    @property
    def ended(self):
        """True when the last step was an end."""
        return self._steps[-1][-1]

    @property
    def observed(self):
        return np.concatenate(self.seen or [()]).astype(np.int32)

    @property
    def counts(self):
        return np.fromiter(map(len, self.seen), dtype=np.int64, count=self.length)

    @cached_property
    def _table(self):
        return np.array(self._steps, dtype=np.float64).reshape(self.length, 4).T.copy()

    @property
    def actions(self):
        return np.array(self._done, dtype=None if self._done else np.int64)

    @property
    def log_probs(self):
        return self._table[0]

    @property
    def values(self):
        return self._table[1]

    @property
    def rewards(self):
        return self._table[2]

    @cached_property
    def ends(self):
        return self._table[3] != 0
