"""Cost of an Allreduce: alpha-beta-gamma models of a measured or a named network.

A message of b bytes takes alpha + beta b seconds, a sum of two such arrays gamma b. For N ranks, q = floor(log2 N):

    recursive doubling    q (alpha + beta b + gamma b)                            short messages
    ring                  2 (N - 1) alpha + (N - 1) / N (2 beta + gamma) b        long messages, few ranks
    Rabenseifner          2 q alpha + (2^q - 1) / 2^q (2 beta + gamma) b          long messages

If N is not a power of two, recursive doubling and Rabenseifner use 2^q ranks. The other ranks send them their arrays
first and receive the sum at the end: two more messages and one more sum.
MPI libraries choose by size and number of ranks; this model takes the cheapest. Source: Thakur, Rabenseifner, Gropp,
"Optimization of Collective Communication Operations in MPICH" (2005).
"""

import math
from typing import NamedTuple

import numpy as np
from scipy.optimize import least_squares

from pg_mpi.config.parsers import choice
from pg_mpi.run.step_division import divisors

GAMMA = 1e-10  # seconds per byte: float32 sums at 10 GB/s, limited by memory


class Network(NamedTuple):
    """alpha: seconds per message; beta: seconds per byte; gamma: seconds to add a byte."""

    alpha: float
    beta: float
    gamma: float = GAMMA


#: Typical published figures for small messages over one link between two nodes.
NAMED = {
    "memory": Network(0.5e-6, 1 / 5e9),  # between ranks of one node
    "ethernet-100m": Network(60e-6, 1 / 11.8e6),
    "ethernet-1g": Network(30e-6, 1 / 118e6),
    "ethernet-10g": Network(15e-6, 1 / 1.18e9),
    "ethernet-25g": Network(12e-6, 1 / 2.9e9),
    "aries": Network(1.3e-6, 1 / 10e9),
    "infiniband-hdr": Network(1.0e-6, 1 / 24e9),
    "slingshot-11": Network(1.8e-6, 1 / 23e9),
}
named = choice(*NAMED)  # a parser


def allreduce(ranks, size, network):
    """Seconds of an Allreduce of ``size`` bytes over ranks that each have their own link."""
    if ranks == 1:
        return 0.0
    alpha, beta, gamma = network
    steps = ranks.bit_length() - 1
    even = 2**steps
    odd = 2 * (alpha + beta * size) + gamma * size if ranks > even else 0.0
    ring = 2 * (ranks - 1) * alpha + (ranks - 1) / ranks * (2 * beta + gamma) * size
    doubling = steps * (alpha + (beta + gamma) * size) + odd
    halving = 2 * steps * alpha + (even - 1) / even * (2 * beta + gamma) * size + odd
    return min(ring, doubling, halving)


def two_levels(ranks, size, node, memory, network, shared=False):
    """Seconds of an Allreduce within nodes of ``node`` ranks plus one between nodes, which have one link each.

    ``shared``: the arrays are in memory that a node's ranks share, and each rank reads its part of all of them.
    """
    inside = 0.0
    if node > 1:
        inside = allreduce(min(ranks, node), 8 if shared else size, memory) + shared * memory.beta * size
    return inside + allreduce(-(-ranks // node), size, network)


def fitted(ranks, seconds):
    """Fit a ``Network`` to the smallest and the largest measured Allreduce. ``seconds``: {bytes: seconds}.

    Sizes in between are not used: MPI libraries change their algorithm there, and the buffers of a switch hide part
    of the link time.
    """
    sizes = np.array([min(seconds), max(seconds)], dtype=float)
    times = np.array([seconds[size] for size in sizes])

    def misses(logs):
        network = Network(*np.exp(logs))
        return [math.log(allreduce(ranks, size, network) / time) for size, time in zip(sizes, times)]

    start = [math.log(times[0]), math.log(times[1] / sizes[1])]
    return Network(*map(float, np.exp(least_squares(misses, start).x)))


def dividing_on_nodes(ranks, node):
    """How many of ``ranks`` ranks divide an optimizer step, with at most ``node`` on a node."""
    return divisors(ranks, -(-ranks // node))[0]
