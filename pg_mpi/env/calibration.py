"""Calibration: play before a run that finds backgrounds and colour classes.

It uses no data on particular games. It plays a few thousand random steps with a fixed seed, so its result for a game
is the same in every run.
"""

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pg_mpi.config.random_streams import CALIBRATION, stream
from pg_mpi.env.atari import AtariGame
from pg_mpi.features.foreground import Scene

STEPS = 2000
COLOUR_EVERY = 4  # steps between the screens whose colours are counted per pixel
MIN_ENTROPY = 0.1  # bits of colour entropy per pixel above which colours get classes of their own
MOST_CLASSES = 4  # limit on colour classes


@functools.cache
def find_scene(
    env_id: str, frame_skip: int = 4, mode: int | None = None, difficulty: int | None = None
) -> tuple[Scene, float]:
    """Find the backgrounds and colour classes of a game: (scene, active).

    Returns:
        scene: a ``Scene``. Its first background is the most frequent colour of each pixel. Games also have screens
            filled with another colour, such as Pong's first one after a reset: each colour that fills at least half of
            some screen, other than the usual fill, is a background of every pixel. All colours share one class, unless
            objects of different colours appear at the same pixels; then the most frequent colours have classes of
            their own.
        active: mean fraction of foreground pixels.
    """
    rng = stream(0, CALIBRATION)
    game = AtariGame(env_id, rng, frame_skip, sticky=0.0, mode=mode, difficulty=difficulty)
    pixels = np.arange(game.screen.size)
    counts = np.zeros((256, len(pixels)), dtype=np.uint16).T  # neighbours often have the same colour
    fills = np.zeros(256, dtype=np.int64)
    fill = np.intp(0)  # the most frequent colour of a screen
    for step in range(STEPS):
        colours = game.screen.ravel()
        if 2 * np.count_nonzero(colours == fill) <= len(pixels):
            fill = np.bincount(colours, minlength=256).argmax()
        if 2 * np.count_nonzero(colours == fill) >= len(pixels):
            fills[fill] += 1
        if step % COLOUR_EVERY == 0:
            counts[pixels, colours] += 1
        _random_step(game, rng)
    backgrounds = [counts.argmax(axis=1)]
    for fill in np.flatnonzero(fills):
        if fill != fills.argmax():
            backgrounds.append(np.full(len(pixels), fill))
    for background in backgrounds:
        counts[pixels, background] = 0
    screens = np.stack(backgrounds).astype(np.uint8).reshape(-1, *game.screen.shape)
    return Scene(screens, colour_classes(counts)), counts.sum() / (len(pixels) * len(range(0, STEPS, COLOUR_EVERY)))


def colour_classes(counts: NDArray[np.integer[Any]]) -> NDArray[np.uint8]:
    """Return the class of each colour, uint8 (256,), from its foreground count at each pixel, int (n, 256).

    There is one class if the pixel nearly determines the colour: if the entropy of colours at a pixel,
    -sum p log2 p, averaged over all foreground, is small.
    """
    classes, times = np.zeros(256, dtype=np.uint8), counts.sum(axis=0, dtype=np.int64)
    seen = counts[np.ix_(counts.any(axis=1), times > 0)]
    shares = seen / seen.sum(axis=1, keepdims=True)
    bits = -(seen * np.log2(shares, where=shares > 0, out=np.zeros_like(shares))).sum() / max(times.sum(), 1)
    if bits > MIN_ENTROPY:
        common = np.argsort(-times, kind="stable")[: min(MOST_CLASSES - 1, np.count_nonzero(times))]
        classes[:] = len(common)
        classes[common] = np.arange(len(common))
    return classes


def _random_step(game: AtariGame, rng: np.random.Generator) -> None:
    if game.over():
        game.reset()
    game.step(game.actions[rng.integers(len(game.actions))])
