"""Measure every part of training on each rank of ``scaling.measure.ceiling``.

    python -m scaling.measure.ceiling.ranks FOLDER [the words of scaling.measure.ceiling ...]

writes ``measured.json`` into FOLDER. ``scaling.measure.ceiling`` starts it, under mpirun if there are several ranks.
"""

import contextlib
import dataclasses
import io
import os
import sys
from time import perf_counter

from pg_mpi.config.errors import RunError
from pg_mpi.files.atomic_file import write_json
from pg_mpi.mpi import process
from scaling.measure.ceiling import parts, stubs
from scaling.measure.ceiling.__main__ import prepare


def main(world, argv):
    """Measure and write the result. Collective: every rank must call this."""
    folder, *words = argv
    args, config, given = world.on_root(prepare, words)
    config = dataclasses.replace(config, run_dir=os.path.join(folder, "run"))
    switch = stubs.StubWorld(world)
    with contextlib.redirect_stdout(io.StringIO()):  # hide the trainer's output: standard output is for the result
        bench = parts.Bench(switch, config, given)
    measuring = Measuring(world, switch, bench, args.seconds)
    measuring.run(args.repeats)
    if world.rank == 0:
        facts = {name: measuring.metrics[name] for name in ("env_steps", "length_mean", "return_mean")}
        result = {"mpi": world.mpi_version(), "speeds": measuring.speeds, **facts}
        write_json(os.path.join(folder, "measured.json"), result)
    return 0


class Measuring:
    """The speeds of all parts on this job's ranks. Collective: every rank must call the constructor and ``run``.

    A speed is the sum over ranks of a rank's steps divided by its own seconds. In training they include its wait for
    other ranks. In parts without an exchange no rank waits, and each plays whole rounds for at least ``seconds``; the
    time to restore the envs in between is excluded.

    Attributes:
        speeds: list of steps/s of all ranks, by part.
        metrics: of the last update of training on rank 0.
    """

    def __init__(self, world, switch, bench, seconds):
        self._world, self._switch, self._bench, self._seconds = world, switch, bench, seconds
        self.speeds, self.metrics = {}, None

    def run(self, repeats):
        """Train to warm up, then measure each part ``repeats`` times, interleaved."""
        self._say("training to warm up")
        self._train()
        for repeat in range(repeats):
            self._say(f"repeat {repeat + 1} of {repeats}, {self._seconds:g} s each")
            self._note("train", *self._train())
            self._bench.mark()
            scripts = self._bench.record()
            self._replays(scripts)
            self._alone()

    def _replays(self, scripts):
        """Replay the same games with one more part at a time, up to the player itself."""
        bench = self._bench
        envs, network = bench.player.envs, bench.network
        self._note("emulator", *self._repeat(lambda: parts.emulate(envs, scripts), scripts))
        self._note("features", *self._repeat(lambda: parts.emulate_and_encode(envs, scripts), scripts))
        self._note("inference", *self._repeat(lambda: parts.emulate_and_encode(envs, scripts, network), scripts))
        self._note("play", *self._repeat(bench.play, scripts))
        if bench.scripts() != scripts:
            raise RunError("the restored player did not replay the recorded games")

    def _alone(self):
        """Train with a stub in place of the exchange, and restore the run."""
        self._bench.put_back()
        self._switch.local = True
        speed = self._train(kept=False)
        self._switch.local = False
        self._bench.put_back()
        self._note("no_exchange", *speed)

    # -- one measurement --------------------------------------------------------------------------------

    def _repeat(self, play, scripts):
        """Play the recorded round repeatedly: (steps, seconds) of this rank."""
        spent, rounds = 0.0, 0
        self._world.barrier()
        self._switch.local = True  # ranks play different numbers of rounds, so none may wait for another
        while spent < self._seconds:
            self._bench.rewind()
            begun = perf_counter()
            play()
            spent += perf_counter() - begun
            rounds += 1
        self._switch.local = False
        return rounds * sum(len(script.codes) for script in scripts), spent

    def _train(self, kept=True):
        """Run updates until the time is up: (steps, seconds) of this rank, waiting included.

        ``kept``: with the checks and checkpoints that are due.
        """
        bench = self._bench
        steps, up = 0, False
        self._world.barrier()
        begun = perf_counter()
        while not up:
            bench.learn(bench.play())
            bench.report()
            if kept:
                self.metrics = bench.run_log.metrics
                bench.after_update()
            steps += bench.played
            (up,) = self._switch.any(perf_counter() - begun >= self._seconds)
        return steps, perf_counter() - begun

    def _note(self, part, steps, seconds):
        """Record a speed of a part, in steps/s of all ranks."""
        speed = sum(steps / seconds for steps, seconds in self._world.gather_all((steps, seconds)))
        self.speeds.setdefault(part, []).append(speed)
        self._say(f"  {part:<12} {speed:10,.0f} steps/s")

    def _say(self, line):
        if self._world.rank == 0:
            print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    process.run(main, sys.argv[1:], optional_mpi=True)
