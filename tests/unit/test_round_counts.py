"""Counts of a round: the same over any split of the envs among ranks, at a cost that does not grow with the ranks."""

from types import SimpleNamespace

import numpy as np
import pytest

from pg_mpi.mpi.world import World
from pg_mpi.run.round_counts import MOST_GAMES, NO_GAME, count_round, merge_games
from scaling.model.virtual.world import Hub


def envs_and_rounds(count, games_each):
    """Made-up rounds of ``count`` envs, the same for the same arguments."""
    rng = np.random.default_rng(0)
    played = []
    for _ in range(count):
        games = [(float(rng.integers(-21, 22)), int(rng.integers(500, 5000))) for _ in range(games_each)]
        rewards = rng.choice([0.0, 3e-7, -0.7, 1.0], size=50)
        played.append(SimpleNamespace(length=50, games=games, errors=int(rng.integers(2)), rewards=rewards))
    return [SimpleNamespace(index=index) for index in range(count)], played


def counts_on(ranks, envs, played):
    """Counts of the rounds on virtual ranks, with the envs dealt in turn, so that a rank's are not contiguous."""
    split = [slice(rank, None, ranks) for rank in range(ranks)]
    results = Hub(ranks, lambda size: 0.0).run(
        lambda world: count_round(world, envs[split[world.rank]], played[split[world.rank]])
    )
    for other in results[1:]:
        assert other[:5] == results[0][:5] and (other.recent == results[0].recent).all()
    return results[0]


@pytest.mark.parametrize("count, games_each", [(6, 3), (50, 4), (3, 70), (5, 0)])
def test_counts_do_not_depend_on_the_split_among_ranks(count, games_each):
    envs, played = envs_and_rounds(count, games_each)
    found = count_round(World(), envs, played)
    assert found.env_steps == 50 * count and found.games == count * games_each
    assert found.emulator_errors == sum(t.errors for t in played)
    assert found.reward_count == sum(np.count_nonzero(t.rewards) for t in played)
    assert found.reward_sum == pytest.approx(sum(t.rewards.sum() for t in played), abs=1e-11)
    assert found.recent.tolist() == [list(game) for t in played for game in t.games][-MOST_GAMES:]
    for ranks in (2, 3, 5):
        split = counts_on(ranks, envs, played)
        assert split[:5] == found[:5], "the sum of rewards depends on the order"
        assert split.recent.tolist() == found.recent.tolist()


def test_merged_games_are_the_last_in_the_order_of_envs():
    rows = np.array([[NO_GAME] * 3, [1, 10, 0], [4, 20, 0]])
    others = np.array([[0, 1, 0], [3, 2, 0], [3, 3, 0], [3, 4, 0]])
    assert merge_games(rows, others).tolist() == [[3, 3, 0], [3, 4, 0], [4, 20, 0]]
    assert merge_games(rows[:2], rows[:1]).tolist() == [[NO_GAME] * 3, [1, 10, 0]]
