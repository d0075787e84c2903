"""Compare whole and divided optimizer steps bit for bit; used by test_split.py.

Usage: CASES, a JSON list of [GROUP, SIZE, FAULT]. Every rank has a random gradient of SIZE parameters in each of three
steps. FAULT spoils the last element of the last rank's second gradient: none, nan, or overflow, which is too large for
exact sums. With "rounded" sums are not exact. With "full" the last rank finds no room in shared memory, with "crowded"
none would be left for the MPI, and all ranks must take whole steps instead.
"""

import errno
import hashlib
import json
import os
import sys

import numpy as np
import pytest

from pg_mpi.config.errors import RunError
from pg_mpi.config.settings import TrainConfig
from pg_mpi.learning.optimizer import Adam
from pg_mpi.learning.optimizer_steps import DividedStep, WholeStep, make_step
from pg_mpi.learning.parameter_store import ParameterStore
from pg_mpi.learning.phases import PhaseTimer
from pg_mpi.learning.update_buffers import UpdateBuffers
from pg_mpi.mpi import process, shared_memory

SPOILED = {"nan": np.nan, "overflow": 1e7}


def three_steps(world, kind, size, fault, *group):
    """Digest of the parameters and the optimizer's state, the norms and weights, and the optimizer's steps."""
    optimizer = Adam(size)
    exact = fault != "rounded"
    store = ParameterStore(None, optimizer, TrainConfig(reproducible=exact), shared=True)
    step = kind(store, world, PhaseTimer(), *group)
    theta = np.random.default_rng(7).normal(size=size).astype(np.float32)
    buffers = UpdateBuffers(theta, np.zeros((2, size), np.float32), 1e-2, 0.0, 0, exact)
    rng, done = np.random.default_rng(100 + world.rank), []
    step.open(buffers)
    for number in range(3):
        buffers.out[:] = rng.normal(size=size)
        if fault in SPOILED and number == 1 and world.rank == world.size - 1:
            buffers.out[-1] = SPOILED[fault]
        buffers.empty = True
        buffers.take_in()
        try:
            done.append(step.step(buffers, world.rank + 1.0, 0.5))
        except RunError as error:
            return str(error)
    digest = hashlib.sha256(buffers.theta.tobytes() + buffers.state.tobytes()).hexdigest()
    return f"{digest} {done} {optimizer.steps}"


def full_memory(world, size, group, fault):
    """Assert that all ranks take whole steps if the shared memory of one is full."""

    def full(file, first, length):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared_memory, "PREFIX", prefix := "pg_mpi_full.")  # of no other test
        if fault == "crowded":
            patch.setattr(shared_memory, "LEFT", 2**60)
        elif world.rank == world.size - 1:
            patch.setattr(os, "posix_fallocate", full)
        step = make_step(ParameterStore(None, Adam(size), TrainConfig()), world, PhaseTimer(), group)
    assert isinstance(step, WholeStep), f"rank {world.rank}"
    world.barrier()
    if world.rank == 0:
        left = [name for name in os.listdir(shared_memory.FOLDER) if name.startswith(prefix)]
        print(f"left: {left}")


def main(world, argv):
    for group, size, fault in json.loads(argv[0]):
        if fault in ("full", "crowded"):
            full_memory(world, size, group, fault)
            continue
        whole = three_steps(world, WholeStep, size, fault)
        divided = three_steps(world, DividedStep, size, fault, group)
        found = world.gather_all((whole, divided))
        if world.rank == 0:
            assert len({each for pair in found for each in pair}) == 1, found
            print(divided)
    return 0


if __name__ == "__main__":
    process.run(main, sys.argv[1:])
