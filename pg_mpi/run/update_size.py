"""The size of an update in words, for the banner and ``--dry-run``."""

import math
from collections.abc import Iterable

from pg_mpi.config.settings import TrainConfig
from pg_mpi.learning.round_length import longest_round, whole_games
from pg_mpi.learning.schedule import ANNEALED, plan
from pg_mpi.learning.self_imitation.source import UPDATES


def describe(config: TrainConfig, envs: int) -> list[str]:
    """Lines of text on an update of ``envs`` envs over all ranks."""
    steps, most = longest_round(config), "" if config.sync == "steps" else "at most "
    samples = envs * steps
    noisy = math.inf if envs > (1 if config.reproducible else config.envs_per_rank) else 0.0  # else there is one group
    plans = [plan(config, samples, noise_scale) for noise_scale in (0.0, noisy)]
    if whole_games(config):
        size = f"an update: games of each of {envs:,} envs: {config.games_per_update}; exchanges: 1"
    else:
        replayed = UPDATES if config.replay else 0
        counts = [each.minibatches for each in plans]
        size = f"an update: {most}{samples:,} samples (envs: {envs:,}, steps of each: {steps:,}); "
        size += f"epochs: {config.update_epochs}, minibatches: "
        size += _range(f"{count} of {round(samples / count):,}" for count in counts) + ", exchanges: "
        size += _range(f"{config.update_epochs * count + replayed}" for count in counts)
        size += ", by the gradient noise" if len(set(counts)) > 1 else ""
    rate = f"learning rate: {config.learning_rate:g}"
    if (factors := _range(f"{each.rate:.3g}" for each in plans)) != "1":
        rate += f" x {factors}, as minibatches grow"
    if config.anneal_timesteps:
        whole = round(config.anneal_timesteps * samples / plans[0].progress)
        rate += f"; it falls to {ANNEALED:.0%} over {most}{whole:,} steps, as the entropy bonus"
    return [size, rate]


def _range(texts: Iterable[str]) -> str:
    """One text, or the first and the last if they differ: from the least to the most gradient noise."""
    return " to ".join(dict.fromkeys(texts))
