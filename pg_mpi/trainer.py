"""The parts of a training run put together, and the verbs that the loop in ``train.py`` is made of."""

import hashlib
import sys

from pg_mpi import STARTED, __version__, build, snapshot
from pg_mpi.cluster import pinning
from pg_mpi.cluster.comm import reaches_terminal
from pg_mpi.errors import CheckpointError, UsageError
from pg_mpi.learner import Learner
from pg_mpi.meter import Meter
from pg_mpi.record import checkpoint
from pg_mpi.record.metrics import MetricsLog, Progress, TensorBoard
from pg_mpi.record.phases import Phases
from pg_mpi.record.run_folder import RunFolder, provenance
from pg_mpi.rollout import Env, Player
from pg_mpi.tally import Tally


class Trainer:
    """A run in its folder, new or resumed. Every method is collective: every rank must call it.

    Attributes:
        tally: the run's counters, equal on all ranks.
    """

    def __init__(self, world, config):
        self._world, self._config = world, config
        self._folder = RunFolder(config.folder)
        pinning.pin_threads()
        places = world.gather(pinning.describe())
        saved, resumed_from = world.on_root(self._open)
        self._knowledge = world.on_root(self._know, saved)
        envs_here = config.envs_per_rank
        if saved:
            envs_here = world.on_root(snapshot.check_fits, resumed_from, saved[1], config, world.size)
        phases = Phases()
        policy = build.make_policy(config, self._knowledge)
        self._learner = Learner(policy, build.make_optimizer(config, policy), config, world, phases)
        self.tally = Tally()
        first = world.rank * envs_here
        envs = [Env(index, config, self._knowledge) for index in range(first, first + envs_here)]
        if saved:
            snapshot.apply(*saved, policy, self._learner, self.tally, envs)
        world.copy_from_root_(policy.theta)
        self._player = Player(envs, self._knowledge.codes, config, phases)
        self._network = policy.expand()
        self._phases = phases
        before, self._restarts = world.on_root(self._start_records, places)
        self._meter = Meter(world, phases, before, self.tally.env_steps)
        if world.rank == 0:
            self._banner(places, resumed_from)

    # -- the loop's verbs -------------------------------------------------------------------------------

    def play(self):
        """Play one round of this rank's envs."""
        self._trajectories = self._player.play(self._network)
        steps = sum(t.length for t in self._trajectories)
        self._learner.flops += self._network.flops(steps, sum(len(t.observed) for t in self._trajectories))

    def learn(self):
        """Learn from the round that was played."""
        config, trajectories = self._config, self._trajectories
        anneal = 1.0
        if config.anneal_timesteps:
            anneal = max(0.1, 1 - 0.9 * self.tally.env_steps / config.anneal_timesteps)
        self._stats = self._learner.update(trajectories, self._player.envs[0].shuffle, anneal)
        played = self._world.gather_all((sum(t.length for t in trajectories), [t.games for t in trajectories]))
        games = [game for _, envs in played for env in envs for game in env]
        self.tally.add(sum(steps for steps, _ in played), games)
        with self._phases("inference"):
            self._network = self._learner.policy.expand()

    def report(self):
        """Write this update's metrics and show the progress."""
        tally, learner = self.tally, self._learner
        timing = self._meter.read(tally.update, tally.env_steps, learner.flops)
        if self._world.rank:
            return
        metrics = {
            "update": tally.update,
            "env_steps": tally.env_steps,
            "frames": tally.env_steps * self._config.frame_skip,
            **tally.metrics(),
            **self._stats,
            **timing,
            "ranks": self._world.size,
            "exchanges": learner.exchanges,
            "bytes_exchanged": learner.bytes_exchanged,
            "restarts": self._restarts,
            "emulator_errors": 0,  # an emulator error ends the job
            "skipped_updates": learner.skipped,
        }
        with self._phases("record"):
            self._log.write(metrics)
            if self._tensorboard:
                self._tensorboard.write(metrics)
            self._progress.show(metrics)

    def check_weights(self):
        """Prove that all ranks hold the same weights, bit for bit; raise ``RuntimeError`` naming those that differ."""
        with self._phases("record"):
            digest = hashlib.blake2b(self._learner.policy.theta, digest_size=8).digest()
            digests = self._world.gather_all(digest)
        common = max(set(digests), key=lambda d: (digests.count(d), d == digests[0]))
        strays = [rank for rank, digest in enumerate(digests) if digest != common]
        if strays:
            raise RuntimeError(
                f"after update {self.tally.update} the weights of rank {', '.join(map(str, strays))} differ from the "
                "others': a machine error, or ranks that run different libraries; the last checkpoint is sound"
            )

    def save(self):
        """Write a checkpoint of the whole run."""
        with self._phases("record"):
            content = snapshot.collect(
                self._world,
                self._config,
                self._knowledge,
                self._learner.policy,
                self._learner,
                self.tally,
                self._player.envs,
            )
            self._world.on_root(self._write_checkpoint, content)

    def finish(self, reason, finished):
        """Save, say why it ends, and mark the folder DONE if it is finished."""
        self.save()
        self._world.on_root(self._close, reason, finished)

    # -- rank 0 alone -----------------------------------------------------------------------------------

    def _open(self):
        """Lock the folder and find what to go on from: ((arrays, facts) or None, path or None)."""
        config, folder = self._config, self._folder
        build.game_actions.mirror_pairs(config.symmetry, config.env_id)  # refuse before a folder is made
        if config.track:
            TensorBoard.check()
        source = None if config.resume in ("auto", "never") else config.resume
        if source and not checkpoint.candidates(source):
            raise UsageError(f"--resume {source}: no checkpoint is there; give auto, never, a run folder or a file")
        folder.open()
        try:
            if config.resume == "never" and checkpoint.candidates(folder.path):
                raise UsageError(f"{folder.path} holds a run and --resume never would lose it: give another --run-dir")
            found = checkpoint.load_newest(folder.path, _warn) or (source and checkpoint.load_newest(source, _warn))
        except CheckpointError as error:
            raise UsageError(f"{error}: give --resume PATH of a good one and a new --run-dir") from None
        if not found:
            return None, None
        path, arrays, facts = found
        return (arrays, facts), path

    def _know(self, saved):
        return snapshot.knowledge_of(*saved) if saved else build.learn_game(self._config)

    def _start_records(self, places):
        """Open the logs; training seconds and starts of the folder so far."""
        config, folder = self._config, self._folder
        mpi = self._world.library()
        settings = {**config.identity(), "preset": config.preset}
        folder.reopen()  # finish() marks it again if the budget is not larger
        restarts = folder.begin(settings, provenance(sys.argv, self._world.size, mpi, places))
        self._log = MetricsLog(folder.file("metrics.jsonl"), self.tally.update)
        self._progress = Progress(config, STARTED, reaches_terminal(sys.stdout))
        self._tensorboard = None
        if config.track:
            self._tensorboard = TensorBoard(folder.file("tensorboard"), self.tally.env_steps)
        return self._log.seconds_before, restarts

    def _write_checkpoint(self, content):
        path = checkpoint.path_of(self._folder.checkpoints, self.tally.env_steps)
        checkpoint.save(path, *content, keep=self._config.keep_checkpoints)

    def _close(self, reason, finished):
        if self._tensorboard:
            self._tensorboard.close()
        facts = {"reason": reason, **self.tally.metrics(), "env_steps": self.tally.env_steps}
        if finished:
            self._folder.write_done(facts)
            self._progress.say(f"finished: {reason}. Run folder: {self._folder.path}")
        else:
            self._progress.say(f"stopped: {reason}. Checkpoint saved; the same command goes on. {self._folder.path}")

    def _banner(self, places, resumed_from):
        config, say = self._config, self._progress.say
        hosts = sorted({place["host"] for place in places})
        say(f"pg_mpi {__version__}: {config.env_id}, preset {config.preset}, seed {config.seed}")
        say(f"{self._world.size} ranks on {len(hosts)} hosts ({', '.join(hosts[:8])}), MPI: {self._world.library()}")
        for rank, place in list(enumerate(places))[:8]:
            threads = f"{place['threads']} BLAS thread{'s' if place['threads'] > 1 else ''}"
            say(f"  rank {rank}: cores {place['cores']}, {threads} ({place['blas']})")
        policy = self._learner.policy
        actions = len(self._knowledge.codes)
        say(f"policy: {actions} actions, {policy.theta.size:,} parameters; {config.features} features")
        if resumed_from:
            say(f"resumed from {resumed_from}: update {self.tally.update}, {self.tally.env_steps:,} steps")
        else:
            say(f"new run in {self._folder.path}")


def _warn(line):
    print(f"pg_mpi: warning: {line}", file=sys.stderr, flush=True)
