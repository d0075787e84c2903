"""What a run knows of an Atari game before it plays, and the emulators and encoders that are made of it."""

import dataclasses
from typing import ClassVar

import numpy as np

from pg_mpi.config.errors import UsageError
from pg_mpi.config.random_streams import SURVEY, stream
from pg_mpi.env import action_set
from pg_mpi.env.atari import NOOP, AtariGame, rom_name
from pg_mpi.env.calibration import find_scene
from pg_mpi.features import registry
from pg_mpi.features.foreground import WIDTH, Scene

HEIGHTS = range(195, 257)  # of screens
CROWDED = 0.2  # share of active positions from which on observations are hardly sparse


@dataclasses.dataclass(frozen=True)
class AtariSpec:
    """An Atari game.

    Attributes:
        scene: the ``Scene`` of its screens.
        active: share of pixels that are in the foreground, on average; None where it was not measured.
        codes: ALE action code of each of the policy's actions.
    """

    scene: Scene
    codes: list
    active: float | None = None

    sparse: ClassVar = True  # an observation is a set of active inputs
    recovers: ClassVar = True  # what an emulator raises is an accident: a new one takes its place
    gaussian: ClassVar = False  # actions are not numbers
    idle: ClassVar = NOOP  # the code of doing nothing

    def inputs(self, config):
        """How many inputs may be active."""
        return registry.make_encoder(config.features, self.scene).size

    def origin(self, config):
        """Nothing: active inputs are not scaled."""
        return ()

    def make_game(self, config, rng, film=False):
        """An emulator with a new game. Takes 0.1 to 0.25 s, nearly all for colours that nobody looks at."""
        return AtariGame(
            config.env_id,
            rng,
            config.frame_skip,
            config.sticky,
            config.max_frames,
            mode=config.mode,
            difficulty=config.difficulty,
        )

    def make_encoder(self, config):
        """What turns an emulator's screens into observations."""
        return registry.make_encoder(config.features, self.scene)

    def try_features(self, config):
        """Play some steps with features of the user's own. Raises ``UsageError``."""
        if config.features not in registry.OURS:
            rng = stream(0, SURVEY)
            registry.try_out(config.features, self.scene, self.make_game(config, rng), self.codes, rng)

    def says(self, config):
        """What a policy does here, what it sees, and lines on what else the user should know."""
        planes = f" in {self.scene.colours} classes of colours" if self.scene.colours > 1 else ""
        lines = [f"{len(self.codes)} actions", f"{config.features} features{planes}"]
        if self.active is not None and self.active > CROWDED:
            lines.append(
                f"{100 * self.active:.0f} % of the screen differs from its usual background (Pong: 0.5 %), as where it "
                "scrolls: sparse features hardly apply, and learning will be slow"
            )
        return lines

    def saved(self):
        """(arrays, facts) for a checkpoint, see ``restored``."""
        arrays = {"backgrounds": self.scene.backgrounds, "classes": self.scene.classes}
        return arrays, {"codes": self.codes, "active": self.active}


def check(config):
    """Raise ``UsageError`` for an unknown game."""
    rom_name(config.env_id)


def learn(config):
    """Survey the game of ``config`` (seconds of play). Raises ``UsageError`` for an unknown game or action."""
    registry.encoder_class(config.features)
    version = config.mode, config.difficulty
    codes = action_set.choose(config.actions, config.env_id, config.frame_skip, *version)
    if len(codes) < 2:
        raise UsageError(f"{config.env_id} leaves a policy no choice with --actions {config.actions}: use minimal")
    scene, active = find_scene(config.env_id, config.frame_skip, *version)
    return AtariSpec(scene, codes, float(active))


def restored(arrays, facts):
    """The ``AtariSpec`` that a checkpoint holds. Raises nearly anything for what is none."""
    codes = [int(code) for code in facts["codes"]]
    backgrounds = np.asarray(arrays["backgrounds"], dtype=np.uint8)
    count, height, width = backgrounds.shape
    if not count or height not in HEIGHTS or width != WIDTH:
        raise ValueError(f"backgrounds of shape {backgrounds.shape}")
    classes = np.asarray(arrays["classes"], dtype=np.uint8)
    if classes.shape != (256,) or classes.max() >= 16:
        raise ValueError("classes of colours")
    active = facts["active"]
    return AtariSpec(Scene(backgrounds, classes), codes, None if active is None else float(active))
