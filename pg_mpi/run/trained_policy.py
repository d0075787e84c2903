"""A policy from a checkpoint, and whole games that it plays."""

import contextlib
import dataclasses
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from pg_mpi.config.errors import UsageError, warn
from pg_mpi.config.presets import is_atari, names_foreign_code
from pg_mpi.config.random_streams import EVALUATION_ACTIONS, EVALUATION_STICKY, stream
from pg_mpi.config.settings import TrainConfig
from pg_mpi.env import registry
from pg_mpi.env.interface import Environment, EnvSpec
from pg_mpi.files import checkpoint_folder
from pg_mpi.files.checkpoint_file import Arrays
from pg_mpi.policy.interface import Network
from pg_mpi.run import factory, saved_run

OWN = "package.module:name of the run's env, policy or features, which may be imported"  # help text of --own
Watch = Callable[[Environment, float], object]  # of the environment and the score
MOST_NOOPS = 30  # at the start of games without sticky actions, which would all be the same otherwise


class SavedPolicy(NamedTuple):
    """The policy in a checkpoint. It can be sent to other ranks.

    Attributes:
        path: of the checkpoint.
        env_steps: agent steps of the training before it.
        weights: arrays by name.
    """

    path: str
    env_steps: int
    config: TrainConfig
    env_spec: EnvSpec
    weights: Arrays


def find(source: str, own: Collection[str] = ()) -> SavedPolicy:
    """Read the newest good checkpoint of a run folder, or a checkpoint file.

    Args:
        own: custom code, package.module:name, that may be imported and run.

    Raises ``UsageError``, or ``SystemFault`` if a file cannot be read.
    """
    found = checkpoint_folder.load_newest(source, warn)
    if not found:
        raise UsageError(f"{source} holds no checkpoint: give a run folder that has one (see pg_mpi.status), or a file")
    path, arrays, facts = found
    config = saved_run.config_of(path, facts)
    for setting, name in vars(config).items():
        if names_foreign_code(setting, name) and name not in own:
            raise UsageError(f"{path} needs {name} to be imported and run: give --own {name} if you trust it")
    env_spec = saved_run.env_spec_of(config, arrays, facts)
    registry.check(config)
    factory.try_out(config, env_spec)
    steps = saved_run.steps_of(facts)
    weights: Arrays = {name: arrays[name] for name in ("theta", "running_norm") if name in arrays}
    return SavedPolicy(path, steps, config, env_spec, weights)


class RandomPolicy:
    """A policy in place of a network: all actions are equally likely."""

    def __init__(self, env_spec: EnvSpec, squash: str) -> None:
        self._env_spec, self._before = env_spec, np.arctanh if squash == "tanh" else np.asarray

    def sample(
        self, observations: Sequence[Any], generators: Sequence[np.random.Generator], preferences: Sequence[Any] = ()
    ) -> list[tuple[float, Any, float]]:
        """(value, action, log-probability) for each observation. Continuous actions end between -1 and 1."""
        spec: Any = self._env_spec
        if spec.gaussian:
            return [(0.0, self._before(rng.uniform(-1, 1, len(spec.spaces.low))), 0.0) for rng in generators]
        return [(0.0, int(rng.integers(len(spec.codes))), 0.0) for rng in generators]


class TrainedPolicy:
    """The policy of a checkpoint; the same on all ranks.

    Args:
        sticky: probability of a repeated action in Atari games; None: as in training.
        greedy: take the most probable action instead of sampling.
        random: take uniformly random actions instead.

    Attributes:
        saved: the policy in the checkpoint.
        sticky: as used.
    """

    def __init__(
        self, saved: SavedPolicy, sticky: float | None = None, greedy: bool = False, random: bool = False
    ) -> None:
        self.saved, self.sticky = saved, saved.config.sticky if sticky is None else sticky
        self._config = dataclasses.replace(saved.config, sticky=self.sticky)
        policy = factory.make_policy(saved.config, saved.env_spec)
        saved_run.fill_policy(policy, saved.weights)
        random_policy = cast(Network, RandomPolicy(saved.env_spec, saved.config.squash))
        self._network, self._greedy = random_policy if random else policy.expand(), greedy

    @property
    def starts_with_noops(self) -> bool:
        """Whether games begin with a random number of no-ops, because there are no sticky actions."""
        return self.sticky == 0 and is_atari(self._config.env_id)

    def play(self, game: int = 0, seed: int = 0, watch: Watch | None = None, stop: object = False) -> tuple[float, int]:
        """Play one whole game: (score, agent steps). The same ``game`` and ``seed`` give the same game.

        ``watch(environment, score)`` is called after each step of the policy; ``environment.rgb()`` is the screen.
        The game ends early if ``stop`` becomes true, and after ``--max-frames`` frames even if the env has no limit.
        """
        spec, network, rng = self.saved.env_spec, self._network, stream(seed, EVALUATION_ACTIONS, game)
        score: float = 0
        steps = 0
        emulator = spec.make_game(self._config, stream(seed, EVALUATION_STICKY, game), watch is not None)
        with contextlib.closing(emulator):
            if self.starts_with_noops:
                steps = int(rng.integers(MOST_NOOPS + 1))
                score = sum(emulator.step(cast(Any, spec).idle) for _ in range(steps))
            encoder = spec.make_encoder(self._config)
            observation = encoder.start(emulator.screen)
            while not emulator.over() and not stop and steps * self._config.frame_skip < self._config.max_frames:
                action = network.likeliest(observation) if self._greedy else network.sample([observation], [rng])[0][1]
                score += emulator.step(spec.codes[action])
                steps += 1
                observation = encoder.step(emulator.screen)
                if watch:
                    watch(emulator, score)
        return score, steps
