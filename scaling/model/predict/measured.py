"""Read the costs of an update on one rank, and the game lengths, from a run folder."""

import dataclasses
import json
import math
from pathlib import Path

import numpy as np

from pg_mpi.config.errors import UsageError
from pg_mpi.config.presets import is_atari
from pg_mpi.config.settings import TrainConfig
from pg_mpi.files import checkpoint_folder
from pg_mpi.mpi.thread_pinning import numbers
from scaling.measure.timed_run import read_metrics
from scaling.model.predict.probe import probe

LEAST = 4  # minimum updates for an estimate
PLAY = ("emulator", "reset", "features", "inference")


@dataclasses.dataclass(frozen=True)
class Costs:
    """Costs of an update. Seconds are those of one rank with a core of its own.

    Attributes:
        ranks: number of ranks of the run; ``settings``: its settings.
        lengths: float64, steps of its last games, without trend and scaled to the mean of those updates.
        play_s: a step of one env, including all work except learning.
        noise: standard deviation of the logarithm of that cost between rounds.
        sample_s: learning from a sample, per epoch.
        byte_s: of a gradient, per byte of its exchange; ``call_s``: the fixed cost of a minibatch.
        step_s: optimizer step, per byte of an exchange; ``save_s``: a save, per byte of a checkpoint.
        round_s: fixed cost of an update on rank 0, such as writing metrics.
        rows: (bytes of an exchange, samples of its update, exponent): bytes grow with this power of the samples.
        most_bytes: size of an exchange that touches every parameter.
        whole_bytes: size of a checkpoint without envs; ``state_bytes``: an env's part of it.
    """

    ranks: int
    settings: dict
    lengths: np.ndarray
    play_s: float
    noise: float
    sample_s: float
    byte_s: float
    call_s: float
    step_s: float
    save_s: float
    round_s: float
    rows: tuple
    most_bytes: int
    whole_bytes: int
    state_bytes: int

    def exchange_bytes(self, samples):
        """Bytes of one exchange in an update of ``samples`` samples over all ranks."""
        size, at, power = self.rows
        return min(self.most_bytes, size * (samples / at) ** power)


def read_costs(run, warmup=0.0, between=(0, math.inf)):
    """Read the ``Costs`` of the run in a folder. Raises ``UsageError``.

    Uses the updates of the last start, after ``warmup`` seconds of it, with numbers within ``between``. The range
    matters because games and touched parameters change as the policy learns.
    """
    every = read_metrics(run)
    lines = [line for line in every if line["restarts"] == every[-1]["restarts"]]
    begun = max((line["wall_s"] for line in every[: -len(lines)]), default=0.0) + warmup
    lines = [line for line in lines if line["wall_s"] >= begun and between[0] <= line["update"] <= between[1]]
    if len(lines) <= LEAST:
        raise UsageError(f"{run} has {len(lines)} updates after {warmup:g} s: train longer, {LEAST + 1} are needed")
    try:
        config = json.loads(Path(run, "config.json").read_text(encoding="utf-8"))
        settings, shared = dataclasses.asdict(TrainConfig()) | config["settings"], crowded(config["starts"][-1])
        game = settings["env_id"]
        path, arrays, facts = checkpoint_folder.load_newest(str(run), lambda line: None) or (None, None, None)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise UsageError(f"{run} has no config.json and checkpoint of this version: {error}") from None
    if path is None:
        raise UsageError(f"{run} has no checkpoint: let it train until it has saved one, or stop it with a budget")
    if shared:
        raise UsageError(f"{run} ran {shared}, so its costs are not those of one rank: give a run with a core per rank")
    if not is_atari(game) or settings.get("policy", "usual") != "usual":
        raise UsageError(f"{run} plays {game}: the model supports only the built-in policy on Atari games")
    if settings["reproducible"] or settings["replay"]:
        raise UsageError(f"{run} has --reproducible or --replay, which the model does not support: give another run")
    table = Table(lines)
    played = np.array([steps for _, steps in facts["counters"]["recent"]], dtype=float)
    power, probed = probe(path, arrays, facts, settings["envs_per_rank"])
    play_s, noise = table.playing()
    return Costs(
        ranks=lines[-1]["ranks"],
        settings=settings,
        lengths=levelled(played, table.length(settings)),
        play_s=play_s,
        noise=noise,
        **probed,
        round_s=float(np.median([line["phase_max_s"]["record"] for line in lines[1:]])),
        rows=(*table.exchanged(), power),
        most_bytes=4 * (arrays["theta"].size + 1),
        whole_bytes=arrays["theta"].nbytes + arrays["optimizer"].nbytes,
    )


def levelled(lengths, mean=None):
    """Remove the trend from game lengths, oldest first: games change in length as a policy learns.

    Ranks that wait for each other play the same policy, so only the variation within one policy matters. The trend is
    a straight line through the logarithms. ``mean``: mean of the result (default: that of ``lengths``).
    """
    if len(lengths) < 3:
        return lengths
    order, logs = np.arange(len(lengths)), np.log(lengths)
    level = np.exp(logs - np.polyval(np.polyfit(order, logs, 1), order))
    return level * ((mean or lengths.mean()) / level.mean())


def crowded(start):
    """Describe where a start had more ranks than cores, such as ``4 ranks on 2 cores of n1``; None if nowhere."""
    if start["mpi"].startswith("none"):  # one process, or virtual ranks, which take turns
        return None
    for host in start["places"]["by_host"]:
        cores = len(numbers(host["cores"]))
        if 0 < cores < host["ranks"]:
            return f"{host['ranks']} ranks on {cores} core{'s' if cores > 1 else ''} of {host['host']}"
    return None


class Table:
    """The updates of a run as columns: differences between metrics lines."""

    def __init__(self, lines):
        self._lines, self._ranks = lines[1:], lines[0]["ranks"]
        self.samples, self.exchanges, self.bytes, self.wall, self.games = (
            np.diff([line[name] for line in lines]).astype(float)
            for name in ("env_steps", "exchanges", "bytes_exchanged", "wall_s", "games")
        )

    def playing(self):
        """(seconds per step, noise) of the phases of play and of the time outside of all phases."""
        phases = np.array([sum(line["phase_s"].values()) for line in self._lines])
        play = np.array([sum(line["phase_s"][name] for name in PLAY) for line in self._lines])
        a_step = (play + np.maximum(self.wall - phases, 0)) / (self.samples / self._ranks)
        changes = np.diff(np.log(a_step))  # differences, so that drift is not noise
        noise = np.std(changes) / np.sqrt(2) * np.sqrt(self._ranks)  # of one rank, not of the mean
        return float(np.sum(a_step * self.samples) / np.sum(self.samples)), float(noise)

    def exchanged(self):
        """(bytes of an exchange, samples of its update) for the update of median size."""
        middle = len(self.samples) // 2
        chosen = np.argsort(self.samples)[middle]
        return float(self.bytes[chosen] / max(self.exchanges[chosen], 1)), float(self.samples[chosen])

    def length(self, settings):
        """Mean steps of a game; None if updates do not consist of whole games, or no game ended."""
        by_game = settings["sync"] == "episode" and self.games.any()
        return float(self.samples.sum() / self.games.sum()) if by_game else None
