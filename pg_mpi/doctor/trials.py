"""Short trials on all ranks at once: Allreduce time, memory bandwidth and emulator speed."""

import math
import statistics
import time
import timeit
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pg_mpi.config.errors import described
from pg_mpi.config.random_streams import CALIBRATION, stream
from pg_mpi.env.atari import NOOP, AtariGame, rom_name, rom_path
from pg_mpi.mpi.interface import Collectives
from pg_mpi.mpi.launch.launch_variables import is_first_on_host

SIZES = (8, 65_536, 1_048_576, 4_194_304)  # bytes; the last two are typical of an exchange
MOST_ROUNDS = 200
TRIAD = 4_000_000  # float64 elements: three arrays of 32 MB, more than a core's share of the caches


def exchange(world: Collectives, seconds: float) -> dict[int, float]:
    """Measure the median time of an Allreduce of each of ``SIZES``, on the slowest rank: {bytes: seconds}.

    Collective: every rank must call this. Empty in a world of one.
    """
    if world.size == 1:
        return {}
    return {size: _exchange(world, size, seconds / len(SIZES)) for size in SIZES}


def _exchange(world: Collectives, size: int, budget: float) -> float:
    array = np.zeros(size // 4, dtype=np.float32)
    _time(world, array, 1)  # the first one opens connections
    trial = _largest(world, max(_time(world, array, 3)))
    rounds = int(min(max(budget / max(trial, 1e-6), 3), MOST_ROUNDS))  # equal on all ranks
    return _largest(world, statistics.median(_time(world, array, rounds)))


def _largest(world: Collectives, value: float) -> float:
    """Return the largest value of all ranks. Collective."""
    return float(world.max_(np.array([value]))[0])


def _time(world: Collectives, array: NDArray[np.float32], rounds: int) -> list[float]:
    return timeit.repeat(lambda: world.sum_(array), world.barrier, repeat=rounds, number=1)


def memory(world: Collectives, seconds: float, free_mb: int | None) -> dict[str, float]:
    """Measure the memory bandwidth in GB/s of a rank: rank 0 ``alone``, and the slowest of all ranks ``together``.

    Collective: every rank must call this. Source: the triad a = b + s c of McCalpin's STREAM, here in two passes.
    ``free_mb``: this host's free memory, of which the arrays take half at most.
    """
    most = 4 * TRIAD if free_mb is None else free_mb * 10**6 // (2 * 3 * np.dtype(float).itemsize)
    alone = _triad(seconds, min(4 * TRIAD, most)) if world.rank == 0 else 0.0  # alone it has all of the caches
    hosts = int(world.sum_(np.array([is_first_on_host()], dtype=np.int64))[0])
    here = math.ceil(world.size / max(1, hosts))  # ranks that share this host's memory
    together = -_largest(world, -_triad(seconds, min(TRIAD, most // here)))
    return {"alone": round(_largest(world, alone), 2), "together": round(together, 2)}


def _triad(seconds: float, size: int) -> float:
    a, b, c = (np.ones(size) for _ in range(3))
    rounds, begun = 0, time.perf_counter()
    while time.perf_counter() - begun < seconds:
        np.multiply(c, 3.0, out=a)
        a += b
        rounds += 1
    return 5 * a.nbytes * rounds / (time.perf_counter() - begun) / 1e9


def play(world: Collectives, env_id: str, seconds: float) -> dict[str, Any]:
    """Run the bare emulator on every rank at once and return this rank's results.

    Collective: every rank must call this. ``cpu_share`` is the share of a core that this rank got while it was busy.
    """
    game: AtariGame | None = None
    try:
        rom = rom_path(rom_name(env_id))
        facts: dict[str, Any] = {"rom": rom.name, "rom_sha256": sha256(rom.read_bytes()).hexdigest()[:12]}
        game = AtariGame(env_id, stream(0, CALIBRATION))
    except Exception as error:  # any: the report shows it
        facts = {"error": described(error)}
    world.barrier()
    if game:
        steps, cpu, begun = 0, time.process_time(), time.perf_counter()
        while time.perf_counter() - begun < seconds:
            game.step(NOOP)
            steps += 1
            if game.over():
                game.reset()
        wall = time.perf_counter() - begun
        facts |= {"sps": round(steps / wall), "cpu_share": round((time.process_time() - cpu) / wall, 3)}
    world.barrier()
    return facts
