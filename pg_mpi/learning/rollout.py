"""Playing: envs and a network → trajectories. The hot loop."""

import math

import numpy as np

from pg_mpi.config.errors import RunError
from pg_mpi.config.random_streams import ACTIONS, SHUFFLE, STICKY, stream
from pg_mpi.learning.trajectory import Trajectory

ROUND_STEPS = 1024  # of an env, at most, with --sync episode; REINFORCE needs whole games
ERRORS_IN_ROW = 10  # of an env, until they are no accident


class Env:
    """One emulator with all that belongs to it: its encoder, its random streams and its unfinished game.

    Args:
        env_spec: what is known of the game, as an ``AtariSpec``: it makes the emulator and the encoder.
        game: an emulator with a new game, if one was made before.

    Attributes:
        observation: what the policy sees next; of an Atari game the active inputs, int64 (n,).
        chance: the ``Generator`` that its actions are drawn with.
        preference: what is added to the actions' logits all through the game under way, a list of floats, or None. A
            game that comes after one which paid nothing has one: actions drawn step by step lead nowhere where it
            takes many of a kind to be rewarded. The records hold the probabilities that were played by then.
        explore: deviation of a preference's numbers; 0: no game has one.
        paid: whether the game under way has rewarded anything yet.
        score, steps: of the game under way.
        trajectory: what it has lived through since the last update.
    """

    def __init__(self, index, config, env_spec, game=None):
        self.index = index
        roles = (STICKY, ACTIONS, SHUFFLE)
        self._streams = sticky, self.chance, self.shuffle = [stream(config.seed, role, index) for role in roles]
        self.recovers = env_spec.recovers
        self._make = lambda: env_spec.make_game(config, sticky)
        self.game = game or self._make()
        self.game.draw_from(sticky)
        self.errors_in_row = 0
        self.encoder = env_spec.make_encoder(config)
        self.trajectory = Trajectory()
        explores = env_spec.sparse and config.policy == "usual" and config.method == "clipped"
        self.explore = config.explore if explores else 0.0
        self._actions, self.paid = env_spec.codes, True
        self.begin()

    def begin(self):
        """Take the emulator's fresh game as this env's next one."""
        self.score, self.steps = 0, 0
        self.preference = None
        if self.explore and not self.paid:
            self.preference = (self.explore * self.chance.standard_normal(len(self._actions))).tolist()
        self.paid = False
        self.observation = self.encoder.start(self.game.screen)

    def _saved_preference(self, saved):
        if saved is None:
            return None
        preference = [float(each) for each in saved]
        if len(preference) != len(self._actions) or not np.isfinite(preference).all():
            raise ValueError(f"a preference among {len(preference)} actions")
        return preference

    def recover(self, error, ahead):
        """Go on with a new emulator, for this one raised ``error``: its game is lost, what was lived through stays.

        ``ahead``: the value of the state that it left, discounted. Raises ``RunError`` if new ones fail as well.
        """
        self.errors_in_row += 1
        if self.errors_in_row >= ERRORS_IN_ROW:
            raise RunError(
                f"the emulator of env {self.index} failed {self.errors_in_row} times in a row "
                f"({type(error).__name__}: {error}): check the installation of ale-py"
            ) from error
        self.trajectory.errors += 1
        self.trajectory.break_off(ahead)
        self.game = self._make()
        self.begin()

    def state(self):
        """All of it that the next step depends on: arrays, and a dict for JSON."""
        arrays = {
            "emulator": np.frombuffer(self.game.state(), dtype=np.uint8),
            "encoder": np.frombuffer(self.encoder.state(), dtype=np.uint8),
        }
        streams = [rng.bit_generator.state for rng in self._streams]
        game = {"score": self.score, "steps": self.steps, "paid": self.paid, "preference": self.preference}
        return arrays, {**game, "streams": streams}

    def restore(self, arrays, facts):
        """Continue bit for bit from what ``state`` gave; where a game cannot be saved, with a new one."""
        for rng, state in zip(self._streams, facts["streams"]):
            rng.bit_generator.state = state
        if self.game.restore(arrays["emulator"].tobytes()):
            self.observation = self.encoder.restore(arrays["encoder"].tobytes())
            self.score, self.steps = facts["score"], facts["steps"]
            self.paid = bool(facts["paid"])
            self.preference = self._saved_preference(facts["preference"])
        else:
            self.begin()


class Player:
    """Plays this rank's envs with a network, all at once, until each has done its share of an update.

    Args:
        envs: list of ``Env``.
        codes: the game's name of each policy action, as the ALE's code.
        config: ``sync``, ``num_steps``, ``games_per_update``, ``method``, ``life_loss``, ``reproducible`` and
            ``gamma`` are used.
        phases: a ``PhaseTimer``, for the times of emulator, reset, features and inference.
    """

    def __init__(self, envs, codes, config, phases):
        self.envs, self._codes, self._phases = envs, codes, phases
        by_game = config.sync == "episode"
        self._games = config.games_per_update if by_game else math.inf
        self._steps = ROUND_STEPS if by_game else config.num_steps
        if config.method == "reinforce":
            self._steps = math.inf
        self._gamma = config.gamma
        self._reward_ends = config.method == "reinforce"  # as in Karpathy's Pong, where a reward is a point
        self._life_ends = config.life_loss
        self._apart = config.reproducible  # a product's bits depend on how many envs think at once

    def play(self, network, stop=False):
        """One round: ``num_steps`` steps of each env, or ``games_per_update`` games in at most ``ROUND_STEPS`` steps.

        A game that is not over goes on in the next round; the value of its last state bootstraps the advantages.
        Returns the trajectories, shorter ones as soon as ``stop`` is true.
        """
        for env in self.envs:
            env.trajectory = Trajectory()
        self._prefers = any(env.preference for env in self.envs)  # it costs a list at every step
        active, steps = self.envs, 0
        while active and steps < self._steps and not stop:
            if self._step(active, network):
                active = [env for env in active if len(env.trajectory.games) < self._games]
            steps += 1
        for env in self.envs:
            if env.trajectory.length and not env.trajectory.ended:
                env.trajectory.last_value = network.value(env.observation)
        return [env.trajectory for env in self.envs]

    def _step(self, envs, network):
        """One step of each env: think and draw, act, record, look; each for all envs before the next.

        So what all but acting needs stays in the caches from env to env, which an emulator step in between would clear.
        Returns True when a game ended.
        """
        seconds, clock, reward_ends = self._phases.seconds, self._phases.clock, self._reward_ends
        begun = clock()
        choices = self._think(envs, network)
        thought = clock()
        outcomes = self._act(envs, choices)
        acted = clock()
        seconds["inference"] += thought - begun
        seconds["emulator"] += acted - thought
        if None in outcomes:  # rare
            kept = [k for k, outcome in enumerate(outcomes) if outcome]
            envs, choices, outcomes = ([of[k] for k in kept] for of in (envs, choices, outcomes))
        ended = []
        for env, (value, action, log_prob), (reward, over, lost) in zip(envs, choices, outcomes):
            env.steps += 1
            if reward:
                env.score += reward
                env.paid = True
            end = over or lost or (reward_ends and reward != 0)
            env.trajectory.record(env.observation, action, log_prob, value, reward, end)
            if over:
                ended.append(env)
        begun = clock()
        for env in envs:
            env.observation = env.encoder.step(env.game.screen)
        seconds["features"] += clock() - begun
        for env in ended:
            self._end(env, network)
        return bool(ended)

    def _think(self, envs, network):
        """A (value, action, log-probability) for each env."""
        if self._apart and len(envs) > 1:
            return [self._think([env], network)[0] for env in envs]
        seen, chances = [env.observation for env in envs], [env.chance for env in envs]
        if not self._prefers:
            return network.act(seen, chances)
        return network.act(seen, chances, [env.preference for env in envs])

    def _act(self, envs, choices):
        """What came of each env's action: (reward, whether the game is over, whether a life is lost that counts).

        None where the emulator failed: that env has begun anew with another one.
        """
        codes, life_ends, outcomes = self._codes, self._life_ends, []
        for env, (value, action, _) in zip(envs, choices):
            game = env.game
            lives = game.lives() if life_ends else 0
            try:
                outcomes.append((game.act(codes[action]), game.over(), life_ends and game.lives() < lives))
                env.errors_in_row = 0
            except Exception as error:  # any: an emulator is a large C++ program
                if not env.recovers:
                    raise
                env.recover(error, self._gamma * value)
                outcomes.append(None)
        return outcomes

    def _end(self, env, network):
        """Close an env's game and start its next one."""
        if env.game.truncated():  # the frame cap cut it: what would have come counts
            env.trajectory.foresee(self._gamma * network.value(env.observation))
        begun = self._phases.clock()
        env.trajectory.end_game(env.score, env.steps)
        env.game.reset()
        env.begin()
        self._prefers |= bool(env.preference)
        self._phases.seconds["reset"] += self._phases.clock() - begun
