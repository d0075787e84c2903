"""Watch a policy play in the terminal: ``python -m pg_mpi.watch RUN``.

Each game is played with the newest checkpoint, so the policy improves while the run trains. It needs
256 colours and no display, and works over ssh. A character is two pixels, one above the other.
"""

import shutil
import signal
import sys
import time

import numpy as np
from numpy.typing import NDArray

from pg_mpi.config.errors import UsageError
from pg_mpi.config.parsers import Parser, integer, real
from pg_mpi.config.presets import is_atari
from pg_mpi.env.interface import Environment
from pg_mpi.files.checkpoint_folder import candidates
from pg_mpi.files.folder_lock import is_held
from pg_mpi.mpi import process
from pg_mpi.run.trained_policy import OWN, SavedPolicy, TrainedPolicy, find

FRAMES = 60  # per second, of the games
ATARI_ASPECT = 1.75  # 160 x 210 pixels fill a television of 4 to 3
HIDE, SHOW, CLEAR, HOME = "\x1b[?25l", "\x1b[?25h", "\x1b[2J", "\x1b[H"
REST, LINE_END = "\x1b[0m", "\x1b[K\n"
UPPER_HALF = "▀"


def parser() -> Parser:
    """The command line."""
    p = Parser(
        prog="python -m pg_mpi.watch",
        description="Watch a trained policy play in the terminal, by its newest checkpoint, until Ctrl-C.",
        epilog="For a file instead: python -m pg_mpi.evaluate RUN --video game.mp4",
    )
    p.add_argument("run", metavar="RUN", help="a run folder (its newest good checkpoint) or a checkpoint file")
    p.add_argument("--games", type=integer(), help="end after this many games (default: no end)")
    p.add_argument("--speed", type=real(0, open_low=True), default="1", help="1: as a person would play")
    p.add_argument("--greedy", action="store_true", help="take the most probable action instead of sampling")
    p.add_argument("--own", action="append", default=[], metavar="NAME", help=OWN)
    p.add_argument("--seed", type=integer(0), default="0", help="root of the games' random streams")
    return p


def main(argv: list[str]) -> int:
    """Play games and draw them. Returns the exit code."""
    args = parser().parse(argv)
    if not sys.stdout.isatty():
        raise UsageError("watch draws in a terminal: run it in one, or use pg_mpi.evaluate --video FILE")
    signal.signal(signal.SIGINT, signal.default_int_handler)  # to leave the terminal as it was
    try:
        wait_for_checkpoint(args.run)
        for game in range(args.games or sys.maxsize):
            saved = find(args.run, args.own)
            print(HIDE + ("" if game else CLEAR), end="")
            TrainedPolicy(saved, greedy=args.greedy).play(game, args.seed, Screen(saved, args.speed).draw)
    except KeyboardInterrupt:
        pass
    finally:
        print(f"{REST}{SHOW}\x1b[{shutil.get_terminal_size().lines}H", flush=True)
    return 0


def wait_for_checkpoint(run: str) -> None:
    """Wait for the first checkpoint of a run that is still training."""
    if not candidates(run) and is_held(run):
        print(f"{run} has no checkpoint yet: waiting for the first (Ctrl-C ends this)", flush=True)
    while not candidates(run) and is_held(run):
        time.sleep(0.5)


class Screen:
    """The terminal, for one game.

    Args:
        speed: 1 for the game's own.
    """

    def __init__(self, saved: SavedPolicy, speed: float) -> None:
        self._title = f"{saved.config.env_id} after {saved.env_steps:,} steps, score"
        self._aspect = ATARI_ASPECT if is_atari(saved.config.env_id) else 1.0
        self._seconds, self._due = saved.config.frame_skip / FRAMES / speed, time.monotonic()

    def draw(self, game: Environment, score: float) -> None:
        """Draw the newest screen when it is due."""
        columns, lines = shutil.get_terminal_size()
        picture = halves(shrunk(game.rgb(), columns, 2 * max(lines - 2, 1), self._aspect))
        print(f"{HOME}{picture}{f'{self._title} {score:g}'[: columns - 1]}\x1b[K", end="", flush=True)
        self._due = max(self._due + self._seconds, time.monotonic())
        time.sleep(max(0.0, self._due - time.monotonic()))


def shrunk(rgb: NDArray[np.uint8], columns: int, rows: int, aspect: float = 1.0) -> NDArray[np.uint8]:
    """Shrink a screen (H, W, 3) by whole factors to at most ``columns`` by ``rows`` pixels.

    Of each rectangle the pixel is taken that differs most from the commonest colour. A mean would blur a ball away.

    Args:
        aspect: width of a pixel of the screen, divided by its height.
    """
    height, width = rgb.shape[:2]
    down = max(-(-height // rows), round(-(-width // columns) * aspect))
    across = max(-(-width // columns), round(down / aspect))
    colours = rgb.astype(np.int64) @ [1 << 16, 1 << 8, 1]
    values, counts = np.unique(colours, return_counts=True)
    common = rgb[tuple(np.argwhere(colours == values[counts.argmax()])[0])].astype(int)
    ranked = np.abs(rgb - common).sum(axis=2) << 24 | colours  # by difference, with the colour in the lower bits
    ranked = np.maximum.reduceat(np.maximum.reduceat(ranked, range(0, height, down)), range(0, width, across), axis=1)
    return np.stack([ranked >> 16 & 255, ranked >> 8 & 255, ranked & 255], axis=2).astype(np.uint8)


def halves(rgb: NDArray[np.uint8]) -> str:
    """The text of a screen (H, W, 3). A character's foreground is its upper pixel, its background the lower one."""
    palette = 16 + np.rint(rgb / 51).astype(int) @ [36, 6, 1]  # the terminal's cube of 6 x 6 x 6 colours
    palette = np.pad(palette, ((0, len(palette) % 2), (0, 0)), mode="edge")
    text = []
    for upper, lower in zip(palette[::2].tolist(), palette[1::2].tolist()):
        before = None
        for pair in zip(upper, lower):
            text.append(UPPER_HALF if pair == before else f"\x1b[38;5;{pair[0]};48;5;{pair[1]}m{UPPER_HALF}")
            before = pair
        text.append(REST + LINE_END)
    return "".join(text)


if __name__ == "__main__":
    process.run_alone(main, sys.argv[1:])
