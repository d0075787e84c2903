"""What one rank does for 1,000 to 100,000 ranks: ``python -m scaling.measure.population``.

One process is rank 0 and runs the trainer's own code. The other ranks are simulated: their arrays in a reduction are
copies of rank 0's, as many as a tree passes through one rank, and the states of their envs are copies of a real one. No
message is sent, so the times are those of a rank's own work, without the network.
"""

import contextlib
import io
import tempfile
import time
import timeit
import tracemalloc
from pathlib import Path

import numpy as np

from pg_mpi.config.command_line import parse_train
from pg_mpi.config.parsers import integer
from pg_mpi.files import checkpoint_folder
from pg_mpi.files.run_folder import RunFolder
from pg_mpi.mpi import thread_pinning
from pg_mpi.mpi.world import World
from pg_mpi.run import env_states, rank_placement, rank_times, resume, round_counts, run_state, saving, weight_checks
from pg_mpi.run.trainer import Trainer
from scaling import cli
from scaling.measure.one_rank_of_many import Alone
from scaling.tables import aligned

KIND = ("population", 1)
RANKS_PER_HOST = 128
PARTS = ("count", "describe", "save", "resume")  # in each update, start, save and resume: methods of ``Population``
#: Training settings that cannot be given here.
REFUSED = {"run_dir", "resume", "elastic", "replay", "track", "trace", "expect_ranks"}


def parser():
    """Create the argument parser."""
    p = cli.parser(
        "scaling.measure.population",
        "Measure the processor time and memory that rank 0 needs besides playing and learning, with simulated other "
        f"ranks, {RANKS_PER_HOST} on each host. Nothing is sent: the times are those of a rank's own work.",
        "All other flags are those of pg_mpi.train. Takes half a minute.",
    )
    cli.add_option(p, "--ranks", "N,N", cli.counts, "numbers of ranks", "1000,10000,100000")
    cli.add_option(p, "--repeats", "K", integer(), "measurements of each part; the least counts", 5)
    return cli.add_shared(p, "also write population.csv there", preset=True)


def main(argv):
    """Measure and report."""
    args, words = cli.parse_training(parser(), argv, REFUSED)
    cli.check_training(words, *args.ranks)
    facts = cli.claim(args.out, "population.csv", "scaling.measure.population", argv)
    rows = []
    for ranks in args.ranks:
        cli.say(f"{ranks:,} ranks")
        rows += [{"part": name, "ranks": ranks, **cost} for name, cost in measure(ranks, words, args.repeats).items()]
    cli.write_result(args, "population", aligned(rows), {"rows": rows}, table=(*KIND, rows, facts))
    return 0


class MadeUpWorld(Alone):
    """Rank 0 of ``size`` ranks that do what rank 0 does."""

    def merge_(self, array, function):
        for _ in range(int(np.ceil(np.log2(self.size)))):
            array[...] = function(array.copy(), array)
        return array

    def broadcast_(self, array):
        return array

    def gather_blocks(self, array, each):
        """Blocks of ``each`` ranks, whose envs have numbers of their own."""
        states, replay = env_states.unpack(array)
        first = min(states)
        return [
            env_states.pack({first + rank * len(states) + i: state for i, state in enumerate(states.values())}, replay)
            for rank in range(min(each, self.size))
        ]

    def scatter_blocks(self, blocks, each):
        return blocks[0]

    def on_root(self, function, *args, asleep=False):
        return function(*args)

    def on_every(self, function, *args):
        return function(*args)


class Population:
    """A trainer on rank 0 of ``size`` ranks, after one update.

    Args:
        words: flags of ``pg_mpi.train``.
    """

    def __init__(self, size, folder, words):
        self.config, self.given = parse_train([*words, "--run-dir", folder])
        self.hosts = -(-size // RANKS_PER_HOST)
        self.group = env_states.group_size(self.config, size, self.hosts)
        self._trainer = Trainer(World(), self.config, self.given)
        self._trajectories = self._trainer.play()
        self._trainer.learn(self._trajectories)
        self.world = MadeUpWorld(0, size)
        self._trainer.close()  # ``resume`` locks it
        self._folder = RunFolder(folder)
        self._saving = saving.Saving(self._folder, self.config, self.group, time.monotonic, lambda: None)
        self._layout = self._saving.layout(self.world, size * self.config.envs_per_rank)

    def count(self):
        """The counts of a round, and the check of the weights."""
        round_counts.count_round(self.world, self._trainer.player.envs, self._trajectories)
        weight_checks.check_weights(self.world, self._trainer.learner.policy.theta, 1)

    def describe(self):
        """The facts of a start."""
        rank_placement.summary(self.world, thread_pinning.describe() | {"why_numpy": None})

    def save(self):
        """Rank 0's part of a checkpoint, the weights, and the times of the ranks."""
        trainer = self._trainer
        envs, learner = trainer.player.envs, trainer.learner
        whole = run_state.collect(self.config, trainer.env_spec, learner, trainer.counters)
        states = env_states.gather(self.world, envs, None, self.group)
        self._saving.write(self.world, trainer.counters.env_steps, whole, states, self._layout)
        rank_times.summary(self.world, {"play": 1.0, "wait": 0.1})

    def make_up_parts(self):
        """Make the parts of the other groups, without content: on resume rank 0 looks only whether they are there."""
        path = checkpoint_folder.candidates(self.config.folder)[0]
        for number in range(1, self._layout.parts):
            Path(self._layout.part(path, number)).touch()

    def resume(self):
        """Find the checkpoint, and read and scatter the states of rank 0's group."""
        trainer = self._trainer
        begun, states = resume.begin(self.world, self._folder, self.config, self.given, self.hosts)
        run_state.restore(self.world, begun.saved, trainer.learner, trainer.counters)
        env_states.scatter(self.world, states, trainer.learner, trainer.player.envs)
        self._folder.unlock()


def measure(size, words, repeats):
    """Measure each part: name → CPU milliseconds (least of ``repeats``) and the most MB allocated at once."""
    with tempfile.TemporaryDirectory() as folder:
        with contextlib.redirect_stdout(io.StringIO()):
            population = Population(size, f"{folder}/run", words)
        population.save()
        population.make_up_parts()
        return {name: _cost(getattr(population, name), repeats) for name in PARTS}


def _cost(function, repeats):
    times = timeit.repeat(function, "import gc; gc.enable()", time.process_time, repeats, number=1)
    tracemalloc.start()
    function()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return {"cpu_ms": 1000 * min(times), "peak_mb": peak / 1e6}


if __name__ == "__main__":
    cli.run(main)
