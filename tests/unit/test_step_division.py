"""Which ranks divide an optimizer step."""

import pytest

from pg_mpi.config.settings import TrainConfig
from pg_mpi.mpi.world import World
from pg_mpi.run import step_division
from scaling.model.exchange import dividing_on_nodes
from scaling.model.virtual.world import Hub


@pytest.mark.parametrize(
    "hosts, flags, expected",
    [
        ("aaaa", {}, 4),
        ("aabb", {}, 2),
        ("abab", {}, 1),
        ("aaab", {}, 1),
        ("abcd", {}, 1),
        ("aaabbb", {}, 3),
        ("aaa", {}, 3),
        ("aabbc", {}, 1),
        ("aaaabb", {}, 2),
        ("aaaaaabb", {}, 2),
        ("aaaa", {"elastic": True}, 1),
    ],
)
def test_ranks_of_one_host_divide_the_step(monkeypatch, hosts, flags, expected):
    def together(world):
        world.shift = lambda here: hosts[world.rank - 1]
        monkeypatch.setattr(step_division.platform, "node", lambda: hosts[world.rank])
        return step_division.ranks_per_step(world, TrainConfig(**flags), len(set(hosts)))

    assert Hub(len(hosts), lambda size: 0.0).run(together) == [expected] * len(hosts)


def test_equal_groups_of_ranks_divide_a_step():
    assert [step_division.divisors(ranks, 1) for ranks in (1, 2, 12)] == [[1], [2, 1], [12, 6, 4, 3, 2, 1]]
    assert [step_division.divisors(24, hosts)[0] for hosts in (2, 3, 4, 5, 7, 24, 30)] == [12, 8, 6, 4, 3, 1, 1]
    assert [dividing_on_nodes(*each) for each in ((16, 4), (16, 16), (12, 8), (14, 4))] == [4, 16, 6, 2]


def test_group_of_a_study_divides_nothing():
    world = World()
    world.size, world.divides = 8, False
    assert step_division.ranks_per_step(world, TrainConfig(), 1) == 1
