"""What one env lived through between two updates: preallocated arrays, sparse observations of any length."""

import numpy as np


class Trajectory:
    """Steps of one env in time order, in arrays that are kept and doubled when full.

    Attributes, each valid up to ``length``:
        actions: int64 index into the policy's actions.
        log_probs: float64 log-probability of the action under the policy that drew it.
        values: float64 value estimate of the state before the step.
        rewards: float64 reward of the step.
        ends: bool, no later reward counts for this step's return.
        last_value: value of the state after the last step, for returns that the update cuts.
        games: list of (score, steps) of the games that finished.
    """

    def __init__(self, steps=2048, active=65):
        self._observed = np.empty(steps * active, dtype=np.int32)
        self._starts = np.zeros(steps + 1, dtype=np.int64)
        self._actions = np.empty(steps, dtype=np.int64)
        self._floats = np.empty((3, steps))
        self._ends = np.empty(steps, dtype=bool)
        self.clear()

    def clear(self):
        """Forget all steps; the memory is kept."""
        self.length = self._filled = 0
        self.last_value, self.games = 0.0, []

    def record(self, observation, action, log_prob, value, reward, end):
        """Append one step. ``observation``: int (n,), the active inputs that the policy saw."""
        t, filled = self.length, self._filled + len(observation)
        if t == len(self._actions) or filled > len(self._observed):
            self._grow(filled)
        self._observed[self._filled : filled] = observation
        self._starts[t + 1] = filled
        self._actions[t] = action
        floats = self._floats
        floats[0, t], floats[1, t], floats[2, t] = log_prob, value, reward
        self._ends[t] = end
        self.length, self._filled = t + 1, filled

    def _grow(self, filled):
        self._observed = _longer(self._observed, 2 * filled)
        if self.length == len(self._actions):
            steps = 2 * self.length
            self._starts = _longer(self._starts, steps + 1)
            self._actions = _longer(self._actions, steps)
            self._ends = _longer(self._ends, steps)
            self._floats = np.concatenate((self._floats, np.empty_like(self._floats)), axis=1)

    @property
    def observed(self):
        """All observations in one: int32 (sum of lengths,)."""
        return self._observed[: self._filled]

    @property
    def counts(self):
        """The length of each observation: int64 (length,)."""
        return np.diff(self._starts[: self.length + 1])

    @property
    def actions(self):
        return self._actions[: self.length]

    @property
    def log_probs(self):
        return self._floats[0, : self.length]

    @property
    def values(self):
        return self._floats[1, : self.length]

    @property
    def rewards(self):
        return self._floats[2, : self.length]

    @property
    def ends(self):
        return self._ends[: self.length]


def _longer(array, size):
    """``array`` with room for ``size`` items."""
    if size <= len(array):
        return array
    grown = np.empty(size, dtype=array.dtype)
    grown[: len(array)] = array
    return grown
