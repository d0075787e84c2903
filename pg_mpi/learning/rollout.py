"""The rollout: envs and a network → trajectories. The hot loop.

``Env`` replaces an emulator that raises an exception in a step: the game ends there, and what it recorded is kept.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pg_mpi.config.errors import RunError, described, warn
from pg_mpi.config.random_streams import ACTIONS, SHUFFLE, STICKY, stream
from pg_mpi.config.settings import TrainConfig
from pg_mpi.env.interface import Environment, EnvSpec
from pg_mpi.features.encoder import Encoder
from pg_mpi.learning.phases import PhaseTimer
from pg_mpi.learning.round_length import RoundLength
from pg_mpi.learning.trajectory import Trajectory
from pg_mpi.policy.interface import Network

Choice = tuple[float, Any, float]  # (value, action, log-probability)

ERRORS_IN_ROW = 10  # emulator failures of an env that end the run


class Env:
    """One environment: its emulator, encoder, random streams and current game.

    Args:
        env_spec: the specification, such as ``AtariSpec``. It makes the emulator and the encoder.
        update: number of the update after which the env begins, part of its random streams' key. 0: the run's start.

    Attributes:
        observation: the policy's next input; for Atari games the active inputs, int64 (n,).
        action_rng: the ``Generator`` that samples actions.
        preference: offsets of the action logits in the current game, a list of floats, or None. They are drawn from
            the standard normal distribution after a game without rewards, because some rewards need many equal
            actions in a row. Recorded log-probabilities include them.
        explores: whether there are preferences: on Atari games with the built-in policy and the clipped surrogate.
        paid: whether the current game has given a reward.
        score, steps: of the current game.
        trajectory: the steps since the last update.
    """

    score: float
    steps: int
    preference: list[float] | None
    observation: Any

    def __init__(self, index: int, config: TrainConfig, env_spec: EnvSpec, update: int = 0) -> None:
        self.index = index
        streams = [stream(config.seed, role, index, update) for role in (STICKY, ACTIONS, SHUFFLE)]
        self._streams = sticky, self.action_rng, self.shuffle = streams
        self.recovers = env_spec.sparse  # an emulator is replaced; an error of another environment is a bug in it
        self._make: Callable[[], Environment] = lambda: env_spec.make_game(config, sticky)
        self.game = self._make()
        self.errors_in_row, self._failed = 0, False
        self.encoder: Encoder = env_spec.make_encoder(config)
        self.trajectory = Trajectory()
        self.explores = env_spec.sparse and config.policy == "usual" and config.method == "clipped"
        self._actions, self.paid = env_spec.codes, True
        self.begin()

    def begin(self) -> None:
        """Begin the emulator's new game."""
        self.score, self.steps = 0, 0
        self.preference = None
        if self.explores and not self.paid:
            self.preference = self.action_rng.standard_normal(len(self._actions)).tolist()
        self.paid = False
        self.observation = self.encoder.start(self.game.screen)

    def recover(self, error: Exception, ahead: float) -> None:
        """Replace the emulator, which raised ``error``. Its game is lost; recorded steps are kept.

        ``ahead``: discounted value of its last state. Raises ``RunError`` after ``ERRORS_IN_ROW`` failures in a row.
        """
        self.errors_in_row += 1
        if self.errors_in_row >= ERRORS_IN_ROW:
            raise RunError(
                f"the emulator of env {self.index} failed {self.errors_in_row} times in a row "
                f"({described(error)}): check the installation of ale-py"
            ) from error
        if not self._failed:  # later failures are only counted
            self._failed = True
            warn(f"the emulator of env {self.index} failed ({described(error)}): its game is lost, a new one begins")
        self.trajectory.errors += 1
        self.trajectory.truncate(ahead)
        self.game = self._make()
        self.begin()

    def close(self) -> None:
        """Close the emulator, which may have processes of its own."""
        try:
            self.game.close()
        except Exception as error:  # any: it is the user's code
            warn(f"env {self.index} cannot be closed ({described(error)})")

    def state(self) -> tuple[dict[str, NDArray[np.uint8]], dict[str, Any]]:
        """State that determines the next step: (arrays, JSON-able dict)."""
        arrays = {
            "emulator": np.frombuffer(self.game.state(), dtype=np.uint8),
            "encoder": np.frombuffer(self.encoder.state(), dtype=np.uint8),
        }
        streams = [rng.bit_generator.state for rng in self._streams]
        game = {"score": self.score, "steps": self.steps, "paid": self.paid, "preference": self.preference}
        return arrays, {**game, "streams": streams}

    def restore(self, arrays: Mapping[str, NDArray[np.uint8]], facts: Mapping[str, Any]) -> None:
        """Restore ``state`` bit for bit. A game that cannot be saved is replaced by a new one.

        Raises ``CheckpointError``, ValueError, KeyError or TypeError for malformed data.
        """
        for rng, state in zip(self._streams, facts["streams"], strict=True):
            rng.bit_generator.state = state
        if self.game.restore(arrays["emulator"].tobytes()):
            self.observation = self.encoder.restore(arrays["encoder"].tobytes())
            self.score, self.steps = facts["score"], facts["steps"]
            if not math.isfinite(self.score) or self.steps < 0:
                raise ValueError(f"a game of score {self.score} after {self.steps} steps")
            self.paid = bool(facts["paid"])
            saved = facts["preference"]
            self.preference = saved and [float(each) for each in saved]
            if saved is not None and not (len(saved) == len(self._actions) and np.isfinite(self.preference).all()):
                raise ValueError(f"malformed preference of {len(saved)} numbers")
        else:
            self.begin()


class Player:
    """Plays rounds of this rank's envs with a network, in lockstep.

    Args:
        codes: the environment's code of each policy action, such as the ALE's.
        config: ``method``, ``reproducible`` and ``gamma`` are used.
        phases: for the times of emulator, reset, features and inference.
    """

    def __init__(self, envs: list[Env], codes: Any, config: TrainConfig, phases: PhaseTimer) -> None:
        self.envs, self._codes, self._phases = envs, codes, phases
        self._gamma = config.gamma
        self._reward_ends = config.method == "reinforce"  # as in Karpathy's Pong, where a reward is a point
        self._apart = config.reproducible  # a product's bits depend on the number of envs in it

    def play(self, network: Network, length: RoundLength, stop: object = False) -> list[Trajectory]:
        """Play a round of the given ``length`` with each env.

        An unfinished game continues in the next round; the value of its last state bootstraps the advantages.
        Returns the trajectories, incomplete if ``stop`` became true.
        """
        for env in self.envs:
            env.trajectory = Trajectory()
        active, steps = self.envs, 0
        while active and steps < length.steps and not stop:
            if self._step(active, network):
                active = [env for env in active if len(env.trajectory.games) < length.games]
            steps += 1
        for env in self.envs:
            if env.trajectory.length and not env.trajectory.ended:
                env.trajectory.last_value = network.value(env.observation)
        return [env.trajectory for env in self.envs]

    def _step(self, envs: list[Env], network: Network) -> bool:
        """Step each env: infer, act, record, encode. Each phase covers all envs before the next begins.

        An emulator step in between would evict the other phases' data from the caches. Returns True if a game ended.
        """
        seconds, clock, reward_ends = self._phases.seconds, self._phases.clock, self._reward_ends
        begun = clock()
        choices = self._sample(envs, network)
        sampled = clock()
        outcomes = self._act(envs, choices)
        acted = clock()
        seconds["inference"] += sampled - begun
        seconds["emulator"] += acted - sampled
        ended = []
        for env, (value, action, log_prob), outcome in zip(envs, choices, outcomes):
            if outcome is None:
                continue
            reward, over = outcome
            env.steps += 1
            if reward:
                env.score += reward
                env.paid = True
            end = over or (reward_ends and reward != 0)
            env.trajectory.record(env.observation, action, log_prob, value, reward, end)
            if over:
                ended.append(env)
        begun = clock()
        for env, outcome in zip(envs, outcomes):
            if outcome is not None:
                env.observation = env.encoder.step(env.game.screen)
        seconds["features"] += clock() - begun
        for env in ended:
            self._end(env, network)
        return bool(ended)

    def _sample(self, envs: list[Env], network: Network) -> list[Choice]:
        """Sample (value, action, log-probability) for each env."""
        if self._apart and len(envs) > 1:
            return [self._sample([env], network)[0] for env in envs]
        seen, generators = [env.observation for env in envs], [env.action_rng for env in envs]
        return network.sample(seen, generators, [env.preference for env in envs])

    def _act(self, envs: list[Env], choices: list[Choice]) -> list[tuple[float, bool] | None]:
        """Take the actions; returns (reward, whether the game is over) for each env.

        None where the emulator failed and was replaced.
        """
        codes = self._codes
        outcomes: list[tuple[float, bool] | None] = []
        for env, (value, action, _) in zip(envs, choices):
            game = env.game
            try:
                outcomes.append((game.step(codes[action]), game.over()))
                env.errors_in_row = 0
            except Exception as error:  # any: an emulator is a large C++ program
                if not env.recovers:
                    raise
                env.recover(error, self._gamma * value)
                outcomes.append(None)
        return outcomes

    def _end(self, env: Env, network: Network) -> None:
        """End an env's game and begin its next one."""
        if env.game.truncated():  # by the frame cap: bootstrap
            env.trajectory.bootstrap(self._gamma * network.value(env.observation))
        begun = self._phases.clock()
        env.trajectory.end_game(env.score, env.steps)
        env.game.reset()
        env.begin()
        self._phases.seconds["reset"] += self._phases.clock() - begun
