"""Playing: envs and a network → trajectories. The hot loop."""

from time import perf_counter

import numpy as np

from pg_mpi.agent.policy import sample
from pg_mpi.game.atari import AtariGame
from pg_mpi.game.features import FrameEncoder
from pg_mpi.seeding import ACTIONS, SHUFFLE, STICKY, stream
from pg_mpi.trajectory import Trajectory


class Env:
    """One emulator with all that belongs to it: its encoder, its random streams and its unfinished game.

    Attributes:
        observation: int64 (n,), the active inputs the policy sees next.
        score, steps: of the game under way.
        trajectory: what it has lived through since the last update.
    """

    def __init__(self, index, config, knowledge):
        self.index = index
        roles = (STICKY, ACTIONS, SHUFFLE)
        self._streams = sticky, self.actions, self.shuffle = [stream(config.seed, role, index) for role in roles]
        self.game = AtariGame(config.env_id, sticky, config.frame_skip, config.sticky, config.max_frames)
        self.encoder = FrameEncoder(config.features, knowledge.backgrounds)
        self.trajectory = Trajectory()
        self.begin()

    def begin(self):
        """Take the emulator's fresh game as this env's next one."""
        self.score, self.steps = 0, 0
        self.observation = self.encoder.start(self.game.screen)

    def state(self):
        """All of it that the next step depends on: arrays, and a dict for JSON."""
        arrays = {"emulator": np.frombuffer(self.game.state(), dtype=np.uint8), "masks": self.encoder.state()}
        streams = [rng.bit_generator.state for rng in self._streams]
        return arrays, {"score": self.score, "steps": self.steps, "streams": streams}

    def restore(self, arrays, facts):
        """Continue bit for bit from what ``state`` gave."""
        self.game.restore(arrays["emulator"].tobytes())
        self.observation = self.encoder.restore(arrays["masks"])
        self.score, self.steps = facts["score"], facts["steps"]
        for rng, state in zip(self._streams, facts["streams"]):
            rng.bit_generator.state = state


class Player:
    """Plays this rank's envs with a network, all at once, until each has done its share of an update.

    Args:
        envs: list of ``Env``.
        codes: ALE action code of each policy action.
        config: ``sync``, ``num_steps``, ``games_per_update``, ``return_ends`` and ``gamma`` are used.
        phases: a ``Phases``, for the times of emulator, reset, features and inference.
    """

    def __init__(self, envs, codes, config, phases):
        self.envs, self._codes, self._phases = envs, codes, phases
        self._by_game = config.sync == "episode"
        self._share = config.games_per_update if self._by_game else config.num_steps
        self._point_ends, self._gamma = config.return_ends == "point", config.gamma

    def play(self, network):
        """One round: ``games_per_update`` games or ``num_steps`` steps of each env. Returns the trajectories."""
        for env in self.envs:
            env.trajectory.clear()
        active = list(self.envs)
        while active:
            for env, outputs in zip(active, self._think(active, network)):
                self._step(env, outputs, network)
            active = [env for env in active if not self._done(env.trajectory)]
        if not self._by_game:
            for env in self.envs:
                if not env.trajectory.ends[-1]:
                    env.trajectory.last_value = self._value(env, network)
        return [env.trajectory for env in self.envs]

    def _done(self, trajectory):
        return (len(trajectory.games) if self._by_game else trajectory.length) >= self._share

    def _think(self, envs, network):
        """Logits and value of each env's observation: a list of lists of floats."""
        start = perf_counter()
        outputs = network.forward([env.observation for env in envs])
        self._phases.seconds["inference"] += perf_counter() - start
        return outputs

    def _value(self, env, network):
        return self._think([env], network)[0][-1]

    def _step(self, env, outputs, network):
        """Draw an action, act, look, record; start the next game when one ends."""
        game, seconds = env.game, self._phases.seconds
        value = outputs.pop()
        action, log_prob = sample(outputs, env.actions.random())
        seen = env.observation
        begun = perf_counter()
        reward = game.act(self._codes[action])
        over = game.over()
        acted = perf_counter()
        env.observation = env.encoder.step(game.screen)
        seconds["features"] += perf_counter() - acted
        seconds["emulator"] += acted - begun
        env.score += reward
        env.steps += 1
        gain = reward
        if over and game.truncated():  # the frame cap cut it: what would have come counts
            gain += self._gamma * self._value(env, network)
        env.trajectory.record(seen, action, log_prob, value, gain, over or (self._point_ends and reward != 0))
        if over:
            begun = perf_counter()
            env.trajectory.games.append((env.score, env.steps))
            game.reset()
            env.begin()
            seconds["reset"] += perf_counter() - begun
