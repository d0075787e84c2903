"""Specification of an Atari game. It creates emulators and encoders."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pg_mpi.config.errors import UsageError
from pg_mpi.config.random_streams import CALIBRATION, stream
from pg_mpi.config.settings import TrainConfig
from pg_mpi.env import action_set
from pg_mpi.env.atari import NOOP, AtariGame, rom_name
from pg_mpi.env.calibration import find_scene
from pg_mpi.features import registry
from pg_mpi.features.encoder import Encoder
from pg_mpi.features.foreground import WIDTH, Scene

HEIGHTS = range(195, 257)  # valid heights of screens
CROWDED = 0.2  # fraction of foreground pixels above which observations are not sparse


@dataclasses.dataclass(frozen=True)
class AtariSpec:
    """Specification of an Atari game.

    Attributes:
        scene: ``Scene`` of its screens.
        active: mean fraction of foreground pixels.
        codes: ALE action code of each policy action.
    """

    scene: Scene
    codes: list[int]
    active: float = 0.0

    sparse: ClassVar[bool] = True  # observations are sets of active inputs
    gaussian: ClassVar[bool] = False  # actions are discrete
    idle: ClassVar[int] = NOOP  # code of the no-op action

    def make_game(self, config: TrainConfig, rng: np.random.Generator, film: bool = False) -> AtariGame:
        """Create an emulator with a new game. Takes 0.1 to 0.25 s, nearly all of it for colours that are not used."""
        version = config.mode, config.difficulty
        return AtariGame(config.env_id, rng, config.frame_skip, config.sticky, config.max_frames, *version)

    def make_encoder(self, config: TrainConfig) -> Encoder:
        """Create an encoder of the game's screens."""
        return registry.make_encoder(config.features, self.scene)

    def try_out(self, config: TrainConfig) -> None:
        """Play some steps with custom features. Raises ``UsageError`` if they fail."""
        if config.features not in registry.OURS:
            rng = stream(0, CALIBRATION)
            registry.try_out(config.features, self.scene, self.make_game(config, rng), self.codes, rng)

    def describe(self, config: TrainConfig) -> list[str]:
        """Return lines for the banner: the actions, the features, then warnings."""
        planes = f" in {self.scene.colours} colour classes" if self.scene.colours > 1 else ""
        lines = [f"{len(self.codes)} actions", f"{config.features} features{planes}"]
        if self.active > CROWDED:
            lines.append(
                f"{100 * self.active:.0f} % of the screen differs from its usual background (Pong: 0.5 %), for example "
                "because it scrolls: sparse features hardly apply, and learning will be slow"
            )
        return lines

    def saved(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return (arrays, facts) for a checkpoint; see ``restored``."""
        arrays = {"backgrounds": self.scene.backgrounds, "classes": self.scene.classes}
        return arrays, {"codes": self.codes, "active": self.active}


def check(config: TrainConfig) -> None:
    """Raise ``UsageError`` for an unknown game."""
    rom_name(config.env_id)


def make_spec(config: TrainConfig) -> AtariSpec:
    """Calibrate the game of ``config`` (seconds of play). Raises ``UsageError`` for an unknown game or action."""
    registry.encoder_class(config.features)
    codes = action_set.choose(config)
    if len(codes) < 2:
        raise UsageError(f"--actions {config.actions} gives fewer than two actions of {config.env_id}: use minimal")
    scene, active = find_scene(config.env_id, config.frame_skip, config.mode, config.difficulty)
    return AtariSpec(scene, codes, float(active))


def restored(arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> AtariSpec:
    """Restore an ``AtariSpec`` from a checkpoint. Raises ValueError, KeyError or TypeError for malformed data."""
    codes = [int(code) for code in facts["codes"]]
    if not set(codes) <= set(action_set.CODES.values()):
        raise ValueError(f"unknown action codes: {codes}")
    backgrounds = np.asarray(arrays["backgrounds"], dtype=np.uint8)
    count, height, width = backgrounds.shape
    if not count or height not in HEIGHTS or width != WIDTH:
        raise ValueError(f"invalid shape of backgrounds: {backgrounds.shape}")
    classes = np.asarray(arrays["classes"], dtype=np.uint8)
    if classes.shape != (256,) or classes.max() >= 16:
        raise ValueError("invalid colour classes")
    return AtariSpec(Scene(backgrounds, classes), codes, float(facts["active"]))
