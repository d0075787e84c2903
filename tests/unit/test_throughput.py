"""Speeds and phases of a run, from clocks set by hand."""

from pg_mpi import STARTED
from pg_mpi.learning.phases import PhaseTimer
from pg_mpi.run.throughput import Throughput
from scaling.model.virtual.world import Hub


def test_speeds_shares_and_phases_over_ranks():
    def main(world):
        now = [STARTED + 10.0]
        cpu = [1.0]
        world.clock, world.cpu_clock = lambda: now[0], lambda: cpu[0]
        phases = PhaseTimer()
        times = Throughput(world, phases, 90.0, 5000)
        now[0] += 2
        cpu[0] += 1 + world.rank
        phases.seconds["wait"] = 0.5 + world.rank
        return times.read(5600, 4_000_000_000)

    found = Hub(2, lambda size: 0.0).run(main)[0]
    assert (found["wall_s"], found["sps"], found["sps_total"], found["updates_per_s"]) == (102, 300, 54.90196, 0.5)
    assert (found["cpu_util"], found["gflops"]) == (0.75, 4)
    assert (found["phase_s"]["wait"], found["phase_max_s"]["wait"]) == (1, 1.5)
