"""Atari emulator with sticky actions and a state that restores bit for bit.

Sticky actions are drawn here, from a generator that the caller gives: in training the env's stream STICKY.
"""

from collections.abc import Sequence
from pathlib import Path

import ale_py
import numpy as np
from ale_py import ALEInterface, LoggerMode, roms
from numpy.typing import NDArray

from pg_mpi.config.errors import CheckpointError, UsageError, described, one_line, reportable
from pg_mpi.config.parsers import nearest

FOR_TWO = {"combat", "joust", "maze_craze", "warlords"}  # two-player games: the ALE ends a process that loads one
NOOP = ale_py.Action.NOOP.value

ALEInterface.setLoggerMode(LoggerMode.Error)  # otherwise every rank prints the emulator's banner


def atari_ids() -> dict[str, str]:
    """Return a dict from Gymnasium id to ROM, such as ``ALE/SpaceInvaders-v5`` → ``space_invaders``."""
    return {_id(rom): rom for rom in roms.get_all_rom_ids() if rom not in FOR_TWO}


def _id(rom: str) -> str:
    return f"ALE/{rom.title().replace('_', '')}-v5"


def rom_name(env_id: str) -> str:
    """Return the ROM of a Gymnasium id. Raises ``UsageError`` for an unknown id or a two-player game."""
    known = atari_ids()
    if env_id in map(_id, FOR_TWO):
        raise UsageError(f"{env_id} is a two-player game, which is not supported: choose another game")
    if env_id not in known:
        raise UsageError(f"unknown game {env_id!r}{nearest(env_id, known)}: ids look like ALE/Pong-v5")
    return known[env_id]


def rom_path(rom: str) -> Path:
    """Return the file of a ROM, a ``Path``. Raises ``UsageError`` if it is missing."""
    try:
        path, reason = roms.get_rom_path(rom), "unknown to ale-py"
    except OSError as error:
        if reportable(error):
            raise
        path, reason = None, one_line(error)
    if not path:
        raise UsageError(f"no ROM found for {rom} ({reason}): reinstall ale-py and unset ALE_ROMS_DIR")
    return Path(path)


def _offered(flag: str, value: int, offered: Sequence[int], env_id: str) -> int:
    """Return ``value``. Raises ``UsageError`` with the valid values if it is not one of them."""
    if value not in offered:
        raise UsageError(f"{env_id} has no {flag} {value}: give one of {', '.join(map(str, offered))}")
    return value


class AtariGame:
    """Atari emulator with its own sticky actions.

    The ALE's sticky actions depend on the last action that took effect, which its saved state lacks: a restored
    emulator differs for a few steps. The emulator therefore advances by single frames without stickiness. This class
    draws the sticky actions from one uniform number per step, with the same probabilities.

    Args:
        rng: numpy Generator for the sticky actions.
        sticky: probability per frame that the previous action is repeated.
        mode, difficulty: the ALE's numbers; None: the default. Raises ``UsageError`` for one that the game lacks.

    Attributes:
        screen: uint8 (height, 160), palette indices of the last screen. One buffer, overwritten by every ``step``.
        actions: list of the codes of the ALE's minimal action set.
    """

    def __init__(
        self,
        env_id: str,
        rng: np.random.Generator,
        frame_skip: int = 4,
        sticky: float = 0.25,
        max_frames: int = 108_000,
        mode: int | None = None,
        difficulty: int | None = None,
    ) -> None:
        ale = ALEInterface()
        ale.setInt("random_seed", 0)
        ale.setInt("frame_skip", 1)
        ale.setFloat("repeat_action_probability", 0.0)
        ale.setInt("max_num_frames_per_episode", max_frames)
        ale.loadROM(rom_path(rom_name(env_id)))
        if mode is not None:
            ale.setMode(_offered("--mode", mode, ale.getAvailableModes(), env_id))
        if difficulty is not None:
            ale.setDifficulty(_offered("--difficulty", difficulty, ale.getAvailableDifficulties(), env_id))
        self._ale, self._advance = ale, ale.act
        self._frame_skip, self._sticky = frame_skip, sticky
        self.draw_from(rng)
        self.actions = [int(action.value) for action in ale.getMinimalActionSet()]
        self.screen: NDArray[np.uint8] = np.empty(ale.getScreenDims(), dtype=np.uint8)
        self.reset()

    def draw_from(self, rng: np.random.Generator) -> None:
        """Set the generator for the sticky actions."""
        self._uniform = rng.random

    def reset(self) -> None:
        """Start a new game. The generator for the sticky actions is not reset."""
        self._ale.reset_game()
        self._last = NOOP
        self._ale.getScreen(self.screen)

    def _settle(self, state: ale_py.ALEState) -> None:
        """Restore an ``ALEState``, after one frame.

        Q*bert and Tetris depend on a value that the state lacks. The first frame after a reset sets it permanently.
        """
        self._advance(NOOP)
        self._ale.restoreSystemState(state)

    def step(self, action: int) -> int:
        """Play one agent step (``frame_skip`` frames) of an ALE action code; return the reward (points).

        The previous action is repeated for k frames, P(k >= j) = sticky**j. The new one is held for the rest.
        """
        frames, reward, rest = self._frame_skip, 0, self._uniform()
        while rest < self._sticky and frames:
            reward += self._advance(self._last)
            rest /= self._sticky
            frames -= 1
        for _ in range(frames):
            reward += self._advance(action)
        if frames:
            self._last = action
        self._ale.getScreen(self.screen)
        return reward

    def over(self) -> bool:
        """Return True if the game has ended, by its rules or by the frame limit."""
        return self._ale.game_over(with_truncation=True)

    def truncated(self) -> bool:
        """Return True if the frame limit, not the rules, ended the game."""
        return self._ale.game_truncated() and not self._ale.game_over(with_truncation=False)

    def close(self) -> None:
        """Do nothing: an emulator holds no window and no process."""

    def rgb(self) -> NDArray[np.uint8]:
        """Return the last screen in colour, uint8 (height, 160, 3). Stale after ``restore`` until the next ``step``."""
        return self._ale.getScreenRGB()

    def state(self) -> bytes:
        """Return the state as bytes, without the sticky-action generator. ``rgb`` is stale until the next ``step``."""
        state = self._ale.cloneSystemState()
        self._settle(state)  # this emulator then continues exactly as a restored one
        return bytes([self._last]) + state.serialize()

    def restore(self, state: bytes) -> bool:
        """Continue from ``state`` bit for bit; return True. ``screen`` is stale until the next ``step``."""
        try:
            self._last = ale_py.Action(state[0]).value  # the emulator ends the process for an unknown one
            self._settle(ale_py.ALEState(state[1:]))
            return True
        except (SystemError, ValueError, RuntimeError, TypeError, IndexError) as error:
            raise CheckpointError(
                "the emulator refused its saved state: resume with the version of ale-py that wrote it, or "
                f"start a new run ({described(error)})"
            ) from None
