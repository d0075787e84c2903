"""What a run knows of an Atari game before it plays, and the emulators and encoders that are made of it."""

import dataclasses
import functools
from typing import ClassVar

import numpy as np

from pg_mpi.errors import UsageError
from pg_mpi.game import actions, compiled, motion
from pg_mpi.game.atari import NOOP, AtariGame, rom_name
from pg_mpi.game.compiled import CompiledEncoder
from pg_mpi.game.eye import PIXELS, Eye
from pg_mpi.game.features import FrameEncoder
from pg_mpi.game.shapes import HEIGHT, WIDTH
from pg_mpi.game.survey import find_scene

CROWDED = 0.2  # share of active positions from which on observations are hardly sparse


@dataclasses.dataclass(frozen=True)
class Arcade:
    """An Atari game.

    Attributes:
        backgrounds: uint8 (B, 80, 80), the background colours of each position.
        planes: uint8 (256,), the plane of each colour.
        active: share of positions that are active, on average; None where it was not looked at.
        codes: ALE action code of each of the policy's actions.
    """

    backgrounds: np.ndarray
    planes: np.ndarray
    codes: list
    active: float | None = None

    sparse: ClassVar = True  # an observation is a set of active inputs
    recovers: ClassVar = True  # what an emulator raises is an accident: a new one takes its place
    gaussian: ClassVar = False  # actions are not numbers
    idle: ClassVar = NOOP  # the code of doing nothing

    @property
    def colours(self):
        """How many planes of colours there are."""
        return int(self.planes.max()) + 1

    def inputs(self, config):
        """How many inputs may be active."""
        return 2 * self.colours * PIXELS + (motion.INPUTS if config.features in motion.FEATURES else 0)

    def origin(self, config):
        """Nothing: active inputs are not scaled."""
        return ()

    @functools.cached_property
    def _eye(self):
        return Eye(self.backgrounds, self.planes)

    @property
    def encoded_bytes(self):
        """Shape of an encoder's state."""
        return (3, self.colours * PIXELS // 8)

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
        return (CompiledEncoder if compiled.LOOK else FrameEncoder)(config.features, self._eye)

    def says(self, config):
        """What a policy does here, what it sees, and lines on what else the user should know."""
        planes = f" in {self.colours} colours" if self.colours > 1 else ""
        lines = [f"{len(self.codes)} actions", f"{config.features} features{planes}"]
        if self.active is not None and self.active > CROWDED:
            lines.append(
                f"{100 * self.active:.0f} % of the screen differs from its usual background (Pong: 0.5 %), as where it "
                "scrolls: sparse features hardly apply, and learning will be slow"
            )
        return lines

    def saved(self):
        """(arrays, facts) for a checkpoint, see ``restored``."""
        arrays = {"backgrounds": self.backgrounds, "planes": self.planes}
        return arrays, {"codes": self.codes, "active": self.active}


def check(config):
    """Raise ``UsageError`` for an unknown game."""
    rom_name(config.env_id)


def learn(config):
    """Survey the game of ``config`` (seconds of play). Raises ``UsageError`` for an unknown game or action."""
    version = config.mode, config.difficulty
    codes = actions.choose(config.actions, config.env_id, config.frame_skip, *version)
    if len(codes) < 2:
        raise UsageError(f"{config.env_id} leaves a policy no choice with --actions {config.actions}: use minimal")
    backgrounds, planes, active = find_scene(config.env_id, config.frame_skip, *version)
    return Arcade(backgrounds, planes, codes, float(active))


def restored(arrays, facts):
    """The ``Arcade`` that a checkpoint holds. Raises nearly anything for what is none."""
    codes = [int(code) for code in facts["codes"]]
    backgrounds = np.asarray(arrays["backgrounds"], dtype=np.uint8)
    if backgrounds.ndim != 3 or backgrounds.shape[1:] != (HEIGHT, WIDTH) or not len(backgrounds):
        raise ValueError(f"backgrounds of shape {backgrounds.shape}")
    planes = np.asarray(arrays["planes"], dtype=np.uint8)
    if planes.shape != (256,) or planes.max() > 15:
        raise ValueError("planes of colours")
    active = facts["active"]
    return Arcade(backgrounds, planes, codes, None if active is None else float(active))
