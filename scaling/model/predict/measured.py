"""A run folder → what each part of an update costs one rank, and how long games are."""

import dataclasses
import json
import math
from pathlib import Path

import numpy as np

from pg_mpi.config.errors import UsageError
from pg_mpi.files import checkpoint_file
from pg_mpi.mpi.pinning import numbers
from scaling.measure.timed_run import read_metrics
from scaling.model.predict.probe import probe

LEAST = 4  # updates that costs are read from
PLAY = ("emulator", "reset", "features", "inference")


@dataclasses.dataclass(frozen=True)
class Costs:
    """What an update is made of. Seconds are of one rank with a core of its own.

    Attributes:
        ranks: of the run; ``settings``: its settings.
        lengths: float64, steps of its last games, as they would be had they all been played in those updates.
        step_s: a step of one env, with all that is not learning.
        noise: deviation of the logarithm of that cost from round to round.
        sample_s: learning from a sample once.
        byte_s: making the gradient and the step of a byte of exchanged parameters; ``call_s``: a minibatch besides.
        round_s: what an update costs once, on rank 0 alone, as writing its metrics.
        rows: (bytes of an exchange, samples of its update, exponent): bytes grow with this power of the samples.
        most_bytes: of an exchange that touches every parameter.
        state_bytes: of an env's part of a checkpoint.
    """

    ranks: int
    settings: dict
    lengths: np.ndarray
    step_s: float
    noise: float
    sample_s: float
    byte_s: float
    call_s: float
    round_s: float
    rows: tuple
    most_bytes: int
    state_bytes: int

    def exchange_bytes(self, samples):
        """Bytes of one exchange in an update of so many samples over all ranks."""
        size, at, power = self.rows
        return min(self.most_bytes, size * (samples / at) ** power)


def read_costs(run, warmup=0.0, between=(0, math.inf)):
    """The ``Costs`` of the run in a folder. Raises ``UsageError``.

    From its updates after ``warmup`` seconds; ``between``: and with these numbers, for a policy that has learned more
    plays other games and touches other parameters.
    """
    lines = [line for line in read_metrics(run) if line["wall_s"] >= warmup]
    lines = [line for line in lines if between[0] <= line["update"] <= between[1]]
    if len(lines) <= LEAST:
        raise UsageError(f"{run} has {len(lines)} updates after {warmup:g} s: train longer, {LEAST + 1} are needed")
    try:
        config = json.loads(Path(run, "config.json").read_text(encoding="utf-8"))
        settings, shared = config["settings"], crowded(config["starts"][-1])
        game = settings["env_id"]
        path, arrays, facts = checkpoint_file.load_newest(str(run), lambda line: None) or (None, None, None)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise UsageError(f"{run} has no config.json and checkpoint of this version: {error}") from None
    if path is None:
        raise UsageError(f"{run} has no checkpoint: let it train until it has saved one, or stop it with a budget")
    if shared:
        raise UsageError(f"{run} ran {shared}, so its costs are not those of one rank: give a run with a core for each")
    if not game.startswith("ALE/") or settings.get("policy", "usual") != "usual":
        raise UsageError(f"{run} plays {game}: the model is of our own policy of Atari games")
    table = Table(lines)
    played = np.array([steps for _, steps in facts["counters"]["recent"]], dtype=float)
    power, sample_s, byte_s, call_s = probe(path, arrays, facts, settings["envs_per_rank"])
    step_s, noise = table.playing()
    return Costs(
        ranks=lines[-1]["ranks"],
        settings=settings,
        lengths=levelled(played, table.length(settings)),
        step_s=step_s,
        noise=noise,
        sample_s=sample_s,
        byte_s=byte_s,
        call_s=call_s,
        round_s=float(np.median(table.slowest("record"))),
        rows=(*table.exchanged(), power),
        most_bytes=4 * (arrays["theta"].size + 1),
        state_bytes=int((arrays["emulators"].nbytes + arrays["encoders"].nbytes) / len(facts["envs"])),
    )


def levelled(lengths, mean=None):
    """Lengths of games, oldest first, without their drift: a policy that learns plays longer and longer ones.

    Ranks that wait for each other play the same policy, so what makes them wait is how games of one policy differ. The
    drift is a straight line through the logarithms; ``mean``: of the result, where it is not to stay.
    """
    if len(lengths) < 3:
        return lengths
    order, logs = np.arange(len(lengths)), np.log(lengths)
    level = np.exp(logs - np.polyval(np.polyfit(order, logs, 1), order))
    return level * ((mean or lengths.mean()) / level.mean())


def crowded(start):
    """Where a start of a run had more ranks than cores, in words: ``4 ranks on 2 cores of n1``; None if nowhere."""
    if start["mpi"].startswith("none"):  # one process, and virtual ranks take turns
        return None
    hosts = {}
    for place in start["places"]:
        hosts.setdefault(place["host"], []).append(set(numbers(place["cores"])))
    for host, ranks in hosts.items():
        cores = len(set().union(*ranks))
        if 0 < cores < len(ranks):
            return f"{len(ranks)} ranks on {cores} core{'s' if cores > 1 else ''} of {host}"
    return None


class Table:
    """The updates of a run as columns: what each did, from one metrics line to the next."""

    def __init__(self, lines):
        self._lines, self._ranks = lines[1:], lines[0]["ranks"]
        self.samples, self.exchanges, self.bytes, self.wall, self.games = (
            np.diff([line[name] for line in lines]).astype(float)
            for name in ("env_steps", "exchanges", "bytes_exchanged", "wall_s", "games")
        )

    def mean(self, *names):
        """Seconds of the mean rank in some phases, for each update."""
        return np.array([sum(line["phase_s"][name] for name in names) for line in self._lines])

    def slowest(self, *names):
        """The same of the slowest rank."""
        return np.array([sum(line["phase_max_s"][name] for name in names) for line in self._lines])

    def playing(self):
        """(seconds a step, noise): phases of play, and all that is in no phase, which is Python around them."""
        phases = self.mean(*self._lines[0]["phase_s"])
        other = np.maximum(self.wall - phases, 0)
        a_step = (self.mean(*PLAY) + other) / (self.samples / self._ranks)
        changes = np.diff(np.log(a_step))  # from one to the next, so that a drift of the machine is no noise
        noise = np.std(changes) / np.sqrt(2) * np.sqrt(self._ranks)  # that of the mean of ranks is smaller
        return float(np.sum(a_step * self.samples) / np.sum(self.samples)), float(noise)

    def exchanged(self):
        """(bytes of an exchange, samples of its update), of the median update."""
        middle = len(self.samples) // 2
        chosen = np.argsort(self.samples)[middle]
        return float(self.bytes[chosen] / max(self.exchanges[chosen], 1)), float(self.samples[chosen])

    def length(self, settings):
        """Steps of a game of these updates, on average; None where updates are not of whole games, or no game ended."""
        by_game = settings["sync"] == "episode" and self.games.any()
        return float(self.samples.sum() / self.games.sum()) if by_game else None
