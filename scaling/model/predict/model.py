"""Model of an update on N ranks: play, waiting, learning, exchange and saving.

All ranks play, then wait for the slowest; with REINFORCE for the one with the longest games (order statistics of the
measured lengths). Each exchange waits for the rank with the most samples and is followed by an optimizer step, which
the ranks of a node divide. Ranks that share a core take turns. Waiting ranks use their core too, because MPI polls; but
if MPI knows that a node has more ranks than cores, a waiting rank yields its core to the others.

Costs of a byte were measured in one process, which had the memory to itself. The ranks of a node pass their arrays
through its memory together: a gradient, an exchange or a step takes at least (ranks of the node) x (passes over the
array) x bytes / (bandwidth of the node).
"""

from collections import Counter
from types import SimpleNamespace

import numpy as np

from pg_mpi.learning.round_length import round_length
from pg_mpi.learning.schedule import plan
from pg_mpi.run.env_states import ENVS
from scaling.model.exchange import dividing_on_nodes, two_levels

DRAWS = 2_000_000  # games, over all simulated rounds
TAIL = 0.9  # games beyond this quantile are drawn from an exponential tail
COUNTS = 3 * 8 * 100 + 6 * 8  # bytes that are reduced after a round: at most 100 games, and sums
GRADIENT, EXCHANGE, STEP = 3, 4, 33  # passes of a rank over an array of the size of the gradient
SHARED = 1  # passes of an exchange in shared memory
SMALL = 11  # exchanges of a few bytes per update, in addition to those of the epochs


def predict(costs, ranks, networks, node=128, cores=None, memory=None):
    """Predict an update on N ranks: a JSON-able dict.

    Args:
        costs: those of a measured run.
        networks: the ``Network`` within a node and the one between nodes, of ``node`` ranks each.
        cores: number that all ranks share (default: one per rank). Waiting ranks yield them only if ``node`` > 1.
        memory: bytes/s of a node (default: as much as the ranks can use).
    """
    rng, cores = np.random.default_rng(0), min(cores or ranks, ranks)
    rounds = int(np.clip(DRAWS // (ranks * costs.settings["envs_per_rank"]), 2, 400))
    sums = Counter()
    for _ in range(rounds):
        sums.update(_round(costs, ranks, networks, node, cores, memory or np.inf, rng))
    sps = sums["samples"] / sums["seconds"]
    return {
        "ranks": ranks,
        "sps": sps,
        **{f"{name}_fraction": sums[name] / sums["seconds"] for name in ("wait", "allreduce", "optimizer", "save")},
        "update_s": sums["seconds"] / rounds,
        **{f"{name}_per_update": sums[name] / rounds for name in ("samples", "exchanges", "bytes")},
        "node_hours_per_1e9_steps": 1e9 / sps / 3600 * -(-ranks // node),
    }


def _round(costs, ranks, networks, node, cores, memory, rng):
    """Simulate one update: its work and its seconds."""
    settings = costs.settings
    steps = steps_of(costs, ranks, rng)
    speed = np.exp(costs.noise * rng.standard_normal(ranks) - costs.noise**2 / 2)
    play, total = steps * costs.play_s * speed, float(steps.sum())
    epochs = 1 if settings["method"] == "reinforce" else settings["update_epochs"]
    exchanges = epochs * plan(SimpleNamespace(**settings), total).minibatches
    size = costs.exchange_bytes(total)
    learn = epochs * steps * costs.sample_s * speed
    alone = np.where(np.arange(ranks) == 0, costs.round_s, 0.0)
    done = [taking_turns(work, cores, node > 1) for work in (play, learn, alone)]
    turns, together = ranks / cores, min(ranks, node)
    group = 1 if settings["elastic"] else dividing_on_nodes(ranks, node)

    def passing(count, size):
        """Least seconds in which the ranks of a node pass so often over an array."""
        return count * size * together / memory

    gradients = exchanges * (max(turns * size * costs.byte_s, passing(GRADIENT, size)) + turns * costs.call_s)
    stepping = exchanges * max(turns * size * costs.step_s, passing(STEP, size)) / group
    own = sum(each.max() for each in done) + gradients + stepping
    wait = sum(each.max() - each.mean() for each in done)
    passes = 0 if ranks == 1 else SHARED if group > 1 else EXCHANGE
    sent = exchanges * max(two_levels(ranks, size, node, *networks, shared=group > 1), passing(passes, size))
    touched = two_levels(ranks, costs.most_bytes / 4 / settings["hidden"], node, *networks)
    small = (SMALL + 2 * epochs + 2 * exchanges) * two_levels(ranks, 8, node, *networks)
    counters = two_levels(ranks, COUNTS, node, *networks)
    saved = costs.save_s * (costs.whole_bytes + costs.state_bytes * min(ENVS, together * settings["envs_per_rank"]))
    seconds, every = own + sent + touched + small + counters, settings["checkpoint_every"]
    save = saved / every * (1 if isinstance(every, int) else seconds)
    return {
        "samples": total,
        "seconds": seconds + save,
        "wait": wait,
        "allreduce": sent + touched + counters,
        "optimizer": stepping,
        "save": save,
        "bytes": exchanges * size,
        "exchanges": exchanges,
    }


def taking_turns(work, cores, yields):
    """Finishing times, sorted, of ranks with ``work`` (ranks,) in core seconds that share ``cores`` cores.

    ``yields``: whether a finished rank leaves its core to the others.
    """
    work, ranks = np.sort(work), len(work)
    if not yields:
        return work * ranks / cores
    at_work = np.arange(ranks, 0, -1)
    return np.cumsum(np.diff(work, prepend=0.0) * np.maximum(1.0, at_work / cores))


def steps_of(costs, ranks, rng):
    """Steps that each rank plays in a round: float64 (ranks,)."""
    settings = SimpleNamespace(**costs.settings)
    envs, games = settings.envs_per_rank, settings.games_per_update
    if settings.method != "reinforce":
        newest = [(0.0, steps) for steps in costs.lengths]
        return np.full(ranks, envs * round_length(settings, max(2, envs), newest).steps, dtype=float)
    most = settings.max_frames / settings.frame_skip
    return lengths(costs.lengths, ranks * envs * games, most, rng).reshape(ranks, envs * games).sum(axis=1)


def lengths(seen, count, most, rng):
    """Draw ``count`` game lengths from ``seen``, with a tail beyond the ``TAIL`` quantile, up to ``most``."""
    drawn, edge = rng.choice(seen, count), np.quantile(seen, TAIL)
    beyond = seen[seen > edge] - edge
    if len(beyond):
        tail = drawn > edge
        drawn[tail] = np.minimum(edge + rng.exponential(beyond.mean(), int(tail.sum())), most)
    return drawn
