"""The protocols of environments: what the rest of the package knows about an emulator or a Gymnasium environment."""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pg_mpi.config.settings import TrainConfig
from pg_mpi.features.encoder import Encoder


class Environment(Protocol):
    """One environment. ``AtariGame`` and ``GymEnv`` follow it.

    Attributes:
        screen: the newest observation. Atari: uint8 (height, 160), palette indices, overwritten by every step.
            Others: float32 (n,), a new array each time.
    """

    screen: NDArray[Any]

    def reset(self) -> None:
        """Start a new game."""

    def step(self, action: Any) -> float:
        """Play one agent step; returns the reward. ``action``: one of the specification's ``codes``."""

    def over(self) -> bool:
        """Whether the game has terminated or was truncated."""

    def truncated(self) -> bool:
        """Whether a limit, not the rules, ended the game."""

    def rgb(self) -> NDArray[np.uint8]:
        """The last screen in colour, for videos: uint8 (height, width, 3)."""

    def state(self) -> bytes:
        """The state of the environment. Its random generator is the caller's to save."""

    def restore(self, state: bytes) -> bool:
        """Continue from ``state`` bit for bit: True. False if this environment cannot be saved.

        Raises ``CheckpointError`` for a malformed state.
        """

    def close(self) -> None:
        """Release what the environment holds."""


class EnvSpec(Protocol):
    """What a run knows of its environment before it plays. ``AtariSpec`` and ``GymSpec`` follow it."""

    @property
    def codes(self) -> Any:
        """The environment's code for each of the policy's actions."""

    @property
    def sparse(self) -> bool:
        """Whether an observation is a set of active inputs."""

    @property
    def gaussian(self) -> bool:
        """Whether actions are vectors of numbers, drawn from a normal distribution."""

    def make_game(self, config: TrainConfig, rng: np.random.Generator, film: bool = False) -> Environment:
        """A new environment with a new game. ``film``: whether ``rgb`` will be called."""

    def make_encoder(self, config: TrainConfig) -> Encoder:
        """What turns ``screen`` into observations."""

    def try_out(self, config: TrainConfig) -> None:
        """Try the user's own features or environment. Raises ``UsageError``."""

    def describe(self, config: TrainConfig) -> list[str]:
        """Lines for the banner: the actions, the observations, then warnings."""

    def saved(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """(arrays, facts for JSON) for a checkpoint."""
