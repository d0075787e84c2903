"""The size of an update in words, for the banner and ``--dry-run``."""

from pg_mpi.config.errors import counted
from pg_mpi.config.settings import TrainConfig
from pg_mpi.learning.round_length import longest_round, whole_games
from pg_mpi.learning.schedule import ANNEALED, plan
from pg_mpi.learning.self_imitation.source import UPDATES


def describe(config: TrainConfig, envs: int) -> list[str]:
    """Lines of text on an update of ``envs`` envs over all ranks."""
    steps, most = longest_round(config), "" if config.sync == "steps" else "at most "
    samples = envs * steps
    planned = plan(config, samples)
    if whole_games(config):
        size = f"an update: {counted(config.games_per_update, 'game')} of each of {counted(envs, 'env')}; exchanges: 1"
    else:
        count, replayed = planned.minibatches, UPDATES if config.replay else 0
        size = f"an update: {most}{samples:,} samples (envs: {envs:,}, steps of each: {steps:,}); "
        size += f"epochs: {config.update_epochs}, minibatches: {count} of {round(samples / count):,}, "
        size += f"exchanges: {config.update_epochs * count + replayed}"
    rate = f"learning rate: {config.learning_rate:g}"
    if planned.rate != 1:
        rate += f" x {planned.rate:.2f} for minibatches of this size"
    if config.anneal_timesteps:
        whole = round(config.anneal_timesteps * samples / planned.progress)
        rate += f"; it falls to {ANNEALED:.0%} over {most}{whole:,} steps, as the entropy bonus"
    return [size, rate]
