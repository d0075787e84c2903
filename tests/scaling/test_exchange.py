"""The models of an Allreduce, against messages counted one by one."""

import math

import pytest

from pg_mpi.config.errors import UsageError
from scaling.model.exchange import NAMED, Network, allreduce, fitted, named, two_levels

NET = Network(alpha=2e-6, beta=1e-9, gamma=1e-10)


def ring(ranks, size, network):
    """Seconds of a ring, step by step: a piece to the next rank, first summed, then handed on."""
    piece, seconds = size / ranks, 0.0
    for _ in range(ranks - 1):
        seconds += network.alpha + network.beta * piece + network.gamma * piece
    for _ in range(ranks - 1):
        seconds += network.alpha + network.beta * piece
    return seconds


def halving(ranks, size, network):
    """Rabenseifner's: half of the rest at each step, summed, and the same way back."""
    seconds, piece = 0.0, size
    for _ in range(int(math.log2(ranks))):
        piece /= 2
        seconds += network.alpha + (network.beta + network.gamma) * piece
    for _ in range(int(math.log2(ranks))):
        seconds += network.alpha + network.beta * piece
        piece *= 2
    return seconds


def doubling(ranks, size, network):
    return sum(network.alpha + (network.beta + network.gamma) * size for _ in range(int(math.log2(ranks))))


@pytest.mark.parametrize("ranks", [2, 4, 16, 1024])
@pytest.mark.parametrize("size", [8, 4096, 10_000_000])
def test_the_cheapest_way(ranks, size):
    ways = [way(ranks, size, NET) for way in (ring, halving, doubling)]
    assert allreduce(ranks, size, NET) == pytest.approx(min(ways))


@pytest.mark.parametrize("ranks", [3, 5, 6, 12, 7813])
@pytest.mark.parametrize("size", [8, 4096, 10_000_000])
def test_numbers_that_are_no_power_of_two(ranks, size):
    """The ranks beyond the power of two below hand their arrays over first, and get the sum in the end."""
    even = 2 ** int(math.log2(ranks))
    over = NET.alpha + (NET.beta + NET.gamma) * size
    back = NET.alpha + NET.beta * size
    ways = [ring(ranks, size, NET), over + halving(even, size, NET) + back, over + doubling(even, size, NET) + back]
    assert allreduce(ranks, size, NET) == pytest.approx(min(ways))
    assert allreduce(1, size, NET) == 0


def test_ranks_of_a_node_share_its_link():
    memory = NAMED["memory"]
    expected = allreduce(4, 10**6, memory) + allreduce(3, 10**6, NET)
    assert two_levels(12, 10**6, 4, memory, NET) == pytest.approx(expected)
    assert two_levels(3, 10**6, 4, memory, NET) == pytest.approx(allreduce(3, 10**6, memory))


@pytest.mark.parametrize("ranks", [2, 4, 6])
def test_a_network_is_found_in_its_own_times(ranks):
    truth = Network(alpha=25e-6, beta=1 / 118e6)
    found = fitted(ranks, {size: allreduce(ranks, size, truth) for size in (8, 65_536, 4_194_304)})
    assert found.alpha == pytest.approx(truth.alpha, rel=1e-3) and found.beta == pytest.approx(truth.beta, rel=1e-3)


def test_names():
    assert named("1.5:12") == Network(1.5e-6, 1 / 12e9)
    with pytest.raises(UsageError, match="no network 'slingshot' .did you mean slingshot-11"):
        named("slingshot")
    with pytest.raises(UsageError, match="choose memory"):
        named("-1:3")
