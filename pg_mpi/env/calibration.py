"""What a game shows and does, found by playing it: backgrounds, colours that matter, and distinct actions.

Nothing about any game is written down. The survey plays a few thousand random steps with a seed of its own,
so a game's survey is the same in every run.
"""

import numpy as np

from pg_mpi.config.random_streams import SURVEY, stream
from pg_mpi.env.atari import AtariGame
from pg_mpi.features.foreground import Scene

STEPS = 2000
COLOUR_EVERY = 4  # steps between the screens that are counted position by position
PROBES = 60  # states from which every action is tried
LOOK_AHEAD = 4  # steps an action is held in a probe
TELLING = 0.1  # bits that a colour tells beyond its place, below which it is not looked at
MOST_CLASSES = 4  # of colours
SAME_SHARE = 0.05  # two actions are one if fewer than this share of the probes tell them apart


def find_scene(env_id, frame_skip=4, mode=None, difficulty=None):
    """What a game shows: (scene, active).

    Returns:
        scene: a ``Scene``. Its first background is the colour that each pixel shows most often. Games also have screens
            filled with another colour, such as Pong's first one after a reset: each colour that fills at least half of
            some screen without being the usual fill is a background everywhere. Colours are in one class, unless things
            of different colours come to the same places, where only the colour tells them apart; then the commonest
            have classes of their own.
        active: the share of pixels that are in the foreground, on average.
    """
    game, rng = _random_game(env_id, frame_skip, mode, difficulty)
    pixels = np.arange(game.screen.size)
    counts = np.zeros((len(pixels), 256), dtype=np.uint16)
    fills = np.zeros(256, dtype=np.int64)
    for step in range(STEPS):
        colours = game.screen.ravel()
        shown = np.bincount(colours, minlength=256)
        if 2 * shown.max() >= len(pixels):
            fills[shown.argmax()] += 1
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


def colour_classes(counts):
    """The class of each colour, uint8 (256,), from how often each pixel was in the foreground with it: int (n, 256).

    There is one class if the pixel nearly determines the colour: where the entropy of colours at a pixel,
    -sum p log2 p, averaged over all foreground, is small.
    """
    classes, times = np.zeros(256, dtype=np.uint8), counts.sum(axis=0)
    seen = counts[np.ix_(counts.any(axis=1), times > 0)]
    shares = seen / seen.sum(axis=1, keepdims=True)
    bits = -(seen * np.log2(shares, where=shares > 0, out=np.zeros_like(shares))).sum() / max(times.sum(), 1)
    if bits > TELLING:
        common = np.argsort(-times, kind="stable")[: min(MOST_CLASSES - 1, np.count_nonzero(times))]
        classes[:] = len(common)
        classes[common] = np.arange(len(common))
    return classes


def find_actions(env_id, frame_skip=4, mode=None, difficulty=None):
    """The ALE action codes that differ in what they do, the first of each kind.

    Each action is held for a few steps from the same states, without sticky actions. Two actions that lead
    to the same screen nearly always are one: Pong's FIRE is its NOOP.
    """
    game, rng = _random_game(env_id, frame_skip, mode, difficulty)
    screens = np.empty((len(game.actions), PROBES, *game.screen.shape), dtype=np.uint8)
    for probe in range(PROBES):
        for _ in range(rng.integers(1, 25)):
            _random_step(game, rng)
        state = game.state()
        for index, action in enumerate(game.actions):
            game.restore(state)
            for _ in range(LOOK_AHEAD):
                game.act(action)
            screens[index, probe] = game.screen
        game.restore(state)
    kept = []
    for index in range(len(game.actions)):
        differs = ((screens[index] != screens[k]).any(axis=(1, 2)).mean() for k in kept)
        if all(share >= SAME_SHARE for share in differs):
            kept.append(index)
    return [game.actions[index] for index in kept]


def _random_game(env_id, frame_skip, mode, difficulty):
    rng = stream(0, SURVEY)
    return AtariGame(env_id, rng, frame_skip, sticky=0.0, mode=mode, difficulty=difficulty), rng


def _random_step(game, rng):
    if game.over():
        game.reset()
    game.act(game.actions[rng.integers(len(game.actions))])
