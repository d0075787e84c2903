"""One Atari emulator: act, screen, reset, and a state that continues bit for bit."""

from pathlib import Path

import ale_py
import numpy as np
from ale_py import ALEInterface, LoggerMode, roms

from pg_mpi.config.errors import CheckpointError, UsageError, one_line
from pg_mpi.config.parsers import nearest

FOR_TWO = {"combat", "joust", "maze_craze", "warlords"}  # games; the ALE ends the process that loads one alone
NOOP = ale_py.Action.NOOP.value

ALEInterface.setLoggerMode(LoggerMode.Error)  # or every rank prints the emulator's banner


def atari_ids():
    """The ROM of each Gymnasium id, as ``ALE/SpaceInvaders-v5`` → ``space_invaders``: a dict."""
    playable = (rom for rom in roms.get_all_rom_ids() if rom not in FOR_TWO)
    return {_id(rom): rom for rom in playable}


def _id(rom):
    return f"ALE/{rom.title().replace('_', '')}-v5"


def rom_name(env_id):
    """The ROM of a Gymnasium id: ``ALE/SpaceInvaders-v5`` → ``space_invaders``. Raises ``UsageError``."""
    known = atari_ids()
    if env_id in map(_id, FOR_TWO):
        raise UsageError(f"{env_id} is a game for two, and is not played here")
    if env_id not in known:
        raise UsageError(f"unknown game {env_id!r}{nearest(env_id, known)}: ids look like ALE/Pong-v5")
    return known[env_id]


def rom_path(rom):
    """The file of a ROM: a ``Path``. Raises ``UsageError`` where there is none."""
    try:
        path, reason = roms.get_rom_path(rom), "ale-py does not know it"
    except OSError as error:
        path, reason = None, one_line(error)
    if not path:
        raise UsageError(f"there is no ROM of {rom} ({reason}): install ale-py anew, and leave ALE_ROMS_DIR unset")
    return Path(path)


def _offered(flag, value, offered, env_id):
    """``value``, or a ``UsageError`` that says what there is."""
    if value not in offered:
        raise UsageError(f"{env_id} has no {flag} {value}: give one of {', '.join(map(str, offered))}")
    return value


class AtariGame:
    """An emulator through ``ALEInterface``, with sticky actions of our own.

    The ALE's sticky actions depend on the last action that took effect, which its saved state lacks: a
    restored emulator differed for a few steps. So the emulator advances by single frames without stickiness,
    and what sticks is decided here, by one uniform number a step, with the same probabilities.

    Args:
        rng: numpy Generator of the sticky actions.
        sticky: at each frame, the probability that the action before goes on.
        mode, difficulty: versions of the game, as the ALE numbers them; None: the usual one. Raises ``UsageError``
            for one that it lacks.

    Attributes:
        lives: a function, how many are left.
        screen: uint8 (height, 160), palette indices of the last screen; one buffer, overwritten by every act.
        actions: the ALE's minimal action set of the game, list of action codes.
    """

    def __init__(self, env_id, rng, frame_skip=4, sticky=0.25, max_frames=108_000, mode=None, difficulty=None):
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
        self._ale, self._advance, self.lives = ale, ale.act, ale.lives
        self._frame_skip, self._sticky = frame_skip, sticky
        self.draw_from(rng)
        self.actions = [int(action.value) for action in ale.getMinimalActionSet()]
        self.screen = np.empty(ale.getScreenDims(), dtype=np.uint8)
        self.reset()

    def draw_from(self, rng):
        """Let a stream decide about sticky actions from now on."""
        self._uniform = rng.random

    def reset(self):
        """Start a new game; the stream of sticky actions goes on."""
        self._ale.reset_game()
        self._last = NOOP
        self._ale.getScreen(self.screen)

    def _settle(self, state):
        """Go on from an ``ALEState``, whatever was before.

        Q*bert and Tetris depend on something that a state lacks, and that the first frame after a reset sets for good.
        """
        self._advance(NOOP)
        self._ale.restoreSystemState(state)

    def act(self, action):
        """Play one agent step (``frame_skip`` frames) of an ALE action code; returns the reward (points).

        The action before goes on for k frames, P(k >= j) = sticky**j, and the new one for the rest.
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

    def over(self):
        """True when the game has ended, by its rules or by the frame cap."""
        return self._ale.game_over(with_truncation=True)

    def truncated(self):
        """True when the frame cap, not the rules, ended the game."""
        return self._ale.game_truncated() and not self._ale.game_over(with_truncation=False)

    def close(self):
        """Nothing: an emulator holds no window and no process."""

    def rgb(self):
        """The last screen in colour: uint8 (height, 160, 3). Stale after ``restore``, until the next act."""
        return self._ale.getScreenRGB()

    def state(self):
        """The emulator as bytes; the stream of sticky actions is the caller's. ``rgb`` is stale until the next act."""
        state = self._ale.cloneSystemState()
        self._settle(state)  # it goes on from here too
        return bytes([self._last]) + state.serialize()

    def restore(self, state):
        """Continue from ``state`` bit for bit: True; ``screen`` is stale until the next act."""
        try:
            self._last = state[0]
            self._settle(ale_py.ALEState(state[1:]))
            return True
        except (SystemError, ValueError, RuntimeError, TypeError, IndexError) as error:
            raise CheckpointError(f"the emulator refused its saved state: {error}") from None
