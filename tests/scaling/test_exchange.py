"""The modelled time of an Allreduce is the sum over its messages."""

import math

import pytest

from scaling.model.exchange import NAMED, Network, allreduce, fitted, named, two_levels

NET = Network(alpha=2e-6, beta=1e-9, gamma=1e-10)


def ring(ranks, size, network):
    """Time of a ring Allreduce: reduce-scatter, then allgather, each in ``ranks - 1`` steps."""
    piece, seconds = size / ranks, 0.0
    for _ in range(ranks - 1):
        seconds += network.alpha + network.beta * piece + network.gamma * piece
    for _ in range(ranks - 1):
        seconds += network.alpha + network.beta * piece
    return seconds


def halving(ranks, size, network):
    """Time of Rabenseifner's algorithm: recursive halving with sums, then recursive doubling."""
    seconds, piece = 0.0, size
    for _ in range(int(math.log2(ranks))):
        piece /= 2
        seconds += network.alpha + (network.beta + network.gamma) * piece
    for _ in range(int(math.log2(ranks))):
        seconds += network.alpha + network.beta * piece
        piece *= 2
    return seconds


def doubling(ranks, size, network):
    """Time of recursive doubling."""
    return sum(network.alpha + (network.beta + network.gamma) * size for _ in range(int(math.log2(ranks))))


@pytest.mark.parametrize("ranks", [2, 4, 16, 1024])
@pytest.mark.parametrize("size", [8, 4096, 10_000_000])
def test_cheapest_algorithm_on_powers_of_two(ranks, size):
    times = [algorithm(ranks, size, NET) for algorithm in (ring, halving, doubling)]
    assert allreduce(ranks, size, NET) == pytest.approx(min(times))


@pytest.mark.parametrize("ranks", [3, 5, 6, 12, 7813])
@pytest.mark.parametrize("size", [8, 4096, 10_000_000])
def test_cheapest_algorithm_on_other_numbers_of_ranks(ranks, size):
    """Ranks beyond the largest power of two send their arrays first and receive the sum at the end."""
    power = 2 ** int(math.log2(ranks))
    before = NET.alpha + (NET.beta + NET.gamma) * size
    after = NET.alpha + NET.beta * size
    times = [
        ring(ranks, size, NET),
        before + halving(power, size, NET) + after,
        before + doubling(power, size, NET) + after,
    ]
    assert allreduce(ranks, size, NET) == pytest.approx(min(times))
    assert allreduce(1, size, NET) == 0


def test_ranks_of_a_node_share_one_link():
    memory = NAMED["memory"]
    expected = allreduce(4, 10**6, memory) + allreduce(3, 10**6, NET)
    assert two_levels(12, 10**6, 4, memory, NET) == pytest.approx(expected)
    assert two_levels(3, 10**6, 4, memory, NET) == pytest.approx(allreduce(3, 10**6, memory))
    expected = 10**6 / 5e9 + allreduce(4, 8, memory) + allreduce(3, 10**6, NET)
    assert two_levels(12, 10**6, 4, memory, NET, shared=True) == pytest.approx(expected)


@pytest.mark.parametrize("ranks", [2, 4, 6])
def test_fit_recovers_the_network(ranks):
    network = Network(alpha=25e-6, beta=1 / 118e6)
    fit = fitted(ranks, {size: allreduce(ranks, size, network) for size in (8, 65_536, 4_194_304)})
    assert fit.alpha == pytest.approx(network.alpha, rel=1e-3) and fit.beta == pytest.approx(network.beta, rel=1e-3)


def test_network_names():
    assert named("slingshot-11") == "slingshot-11"
    with pytest.raises(ValueError, match="slingshot-11"):
        named("slingshot")
