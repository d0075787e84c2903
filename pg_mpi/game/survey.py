"""What a game shows and does, found by playing it: backgrounds, colours that matter, and distinct actions.

Nothing about any game is written down. The survey plays a few thousand random steps with a seed of its own,
so a game's survey is the same in every run.
"""

import numpy as np

from pg_mpi.game.atari import AtariGame
from pg_mpi.game.eye import PIXELS, crop
from pg_mpi.seeding import SURVEY, stream

STEPS = 2000
COLOUR_EVERY = 4  # steps between the screens that are counted position by position
PROBES = 60  # states from which every action is tried
LOOK_AHEAD = 4  # steps an action is held in a probe
TELLING = 0.1  # bits that a colour tells beyond its place, below which it is not looked at
MOST_PLANES = 4  # of colours
SAME_SHARE = 0.05  # two actions are one if fewer than this share of the probes tell them apart


def find_scene(env_id, frame_skip=4, mode=None, difficulty=None):
    """What a game shows: (backgrounds, planes, active).

    Returns:
        backgrounds: uint8 (B, 80, 80), the background colours of each position. Plane 0 is the colour that each
            position shows most often. Games also have screens filled with another colour, such as Pong's first one
            after a reset: each colour that fills at least half of some screen without being the usual fill is a
            background everywhere.
        planes: uint8 (256,), a plane for each colour: 0 for all, unless things of different colours come to the same
            places, where only the colour tells them apart. Then the commonest have planes of their own.
        active: the share of positions that show no background, on average.
    """
    game, rng = _random_game(env_id, frame_skip, mode, difficulty)
    counts = np.zeros((PIXELS, 256), dtype=np.int32)
    fills = np.zeros(256, dtype=np.int64)
    positions = np.arange(PIXELS)
    for step in range(STEPS):
        colours = crop(game.screen).ravel()
        shown = np.bincount(colours, minlength=256)
        if 2 * shown.max() >= PIXELS:
            fills[shown.argmax()] += 1
        if step % COLOUR_EVERY == 0:
            counts[positions, colours] += 1
        _random_step(game, rng)
    planes = [counts.argmax(axis=1)]
    for fill in np.flatnonzero(fills):
        if fill != fills.argmax():
            planes.append(np.full(PIXELS, fill))
    backgrounds = np.stack(planes).astype(np.uint8).reshape(-1, *crop(game.screen).shape)
    for background in planes:
        counts[positions, background] = 0
    return backgrounds, colour_planes(counts), counts.sum() / (PIXELS * len(range(0, STEPS, COLOUR_EVERY)))


def colour_planes(counts):
    """The plane of each colour, uint8 (256,), from how often each position was active in each: int (n, 256).

    There is one plane if a position nearly tells the colour: where the entropy of colours at a position,
    -sum p log2 p, averaged over all active pixels, is small.
    """
    planes, seen = np.zeros(256, dtype=np.uint8), counts.sum()
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    bits = -(counts * np.log2(shares, where=shares > 0, out=np.zeros_like(shares))).sum() / max(seen, 1)
    if bits > TELLING:
        times = counts.sum(axis=0)
        common = np.argsort(-times, kind="stable")[: min(MOST_PLANES - 1, np.count_nonzero(times))]
        planes[:] = len(common)
        planes[common] = np.arange(len(common))
    return planes


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
