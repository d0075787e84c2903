"""Times, speed and memory of an update, over all ranks."""

import os
import resource
import sys
from typing import Any

import numpy as np

from pg_mpi import STARTED
from pg_mpi.learning.phases import PhaseTimer
from pg_mpi.mpi.interface import Collectives


class Throughput:
    """Measures each update. ``read`` is collective.

    Attributes:
        totals: this rank's seconds in each phase, over all updates that were read.
    """

    def __init__(self, world: Collectives, phases: PhaseTimer, seconds_before: float, env_steps: int) -> None:
        self._world, self._phases, self._before = world, phases, seconds_before
        self._env_steps, self._wall, self._cpu = env_steps, self.seconds(), world.cpu_clock()
        self._last: dict[str, Any] | None = None
        self._flops, self.totals = 0, dict.fromkeys(phases.seconds, 0.0)

    def seconds(self) -> float:
        """Training seconds of this run folder: earlier starts and this one, start-up included."""
        return self._before + self._world.clock() - STARTED

    def read(self, env_steps: int, flops: int) -> dict[str, Any]:
        """Timing metrics of the update that ends now, by this rank's clock. Collective: every rank must call this.

        ``flops``: this rank's counter. The phases are cleared for the next update.
        """
        wall, cpu = self.seconds(), self._world.cpu_clock()
        seconds = max(wall - self._wall, 1e-9)
        phase = np.array(list(self._phases.seconds.values()))
        done = flops - self._flops
        sums = self._world.sum_(np.array([(cpu - self._cpu) / seconds, done / seconds, *phase]))
        peaks = self._world.max_(np.array([resident_mb(), *phase]))
        metrics = {
            "wall_s": wall,
            "sps": (env_steps - self._env_steps) / seconds,
            "sps_total": env_steps / wall,
            "updates_per_s": 1 / seconds,
            "cpu_util": sums[0] / self._world.size,
            "gflops": sums[1] / 1e9,
            "rss_mb": peaks[0],
            "phase_s": dict(zip(self._phases.seconds, sums[2:] / self._world.size)),
            "phase_max_s": dict(zip(self._phases.seconds, peaks[1:])),
        }
        again = env_steps == self._env_steps and self._last  # a rank failed before this update's metrics were written
        self._env_steps, self._wall, self._cpu, self._flops = env_steps, wall, cpu, flops
        for name, spent in self._phases.seconds.items():
            self.totals[name] += spent
        self._phases.clear()
        self._last = again or _rounded(metrics)
        return self._last


def _rounded(metrics: Any) -> Any:
    """Round to seven digits, for a readable file."""
    if isinstance(metrics, dict):
        return {name: _rounded(value) for name, value in metrics.items()}
    return float(f"{metrics:.7g}")


def resident_mb() -> float:
    """Resident memory of this process in MB (10**6 bytes): current on Linux, peak elsewhere."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / 1e6 if sys.platform == "darwin" else peak / 1e3
