"""Drive one environment per rank of ``scaling.measure.lockstep`` in each of the ways in turn.

A step is a sleep in place of a simulator. Sleeping ranks need no core, so a small machine can run many. The waiting is
real: each group meets in a barrier of its own communicator.

    python -m scaling.measure.lockstep.ranks FOLDER [the words of scaling.measure.lockstep ...]
"""

import os
import sys
import time

from pg_mpi.files.run_folder import write_json
from pg_mpi.mpi import process
from pg_mpi.mpi.launch import launch_env
from pg_mpi.run.phase_timer import PhaseTimer
from scaling.measure.lockstep.__main__ import prepare
from scaling.measure.lockstep.times import WAYS, group_of


def main(world, argv):
    """Measure all ways and write the result. Collective: every rank must call this."""
    folder, *words = argv
    world.on_root(launch_env.check_launch, world.size)
    args, times = world.on_root(prepare, words)
    durations = times.draw(world.rank, args.steps, args.seed)
    found = {}
    for way in WAYS:
        group = world.split(group_of(way, world.rank, world.size, args.workers))
        phases = PhaseTimer(time.monotonic, spans=True)
        world.barrier()
        begun = time.monotonic()
        drive(durations, group, phases)
        world.barrier()  # the update needs all ranks
        mine = {
            "seconds": time.monotonic() - begun,
            "stepping": phases.seconds["emulator"],
            "spans": spans(phases, begun, durations > 2e-3 * times.usual)[: 2 * args.shown],
        }
        found[way] = world.gather(mine)
    if world.rank == 0:
        write_json(os.path.join(folder, "measured.json"), found, indent=None)
    return 0


def spans(phases, begun, slow):
    """(name, start, end) of each step and wait. Slow steps are named ``slow``."""
    steps = iter(slow)
    named = [("slow" if name == "emulator" and next(steps) else name, start, end) for name, start, end in phases.spans]
    return [(name, start - begun, end - begun) for name, start, end in named]


def drive(durations, group, phases):
    """Step through ``durations`` seconds in lock-step with the group."""
    for seconds in durations:
        with phases("emulator"):
            time.sleep(seconds)
        if group.size > 1:
            with phases("wait"):
                group.barrier()


if __name__ == "__main__":
    process.run(main, sys.argv[1:])
