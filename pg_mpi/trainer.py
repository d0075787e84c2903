"""The parts of a training run put together, and the verbs that the loop in ``train.py`` is made of."""

import dataclasses
import hashlib
import sys

import numpy as np

from pg_mpi import STARTED, __version__, build, snapshot
from pg_mpi.cluster import pinning
from pg_mpi.cluster.launched import reaches_terminal
from pg_mpi.learner import Learner
from pg_mpi.meter import Meter
from pg_mpi.record.metrics import MetricsLog, Progress, TensorBoard
from pg_mpi.record.phases import Phases
from pg_mpi.record.run_folder import provenance
from pg_mpi.rollout import Env, Player
from pg_mpi.schedule import stage
from pg_mpi.start import find_start, save_checkpoint
from pg_mpi.tally import Tally


class Trainer:
    """A run in its folder, new or resumed.

    Collective: every rank must call the constructor and each method.

    Attributes:
        config: the settings, with the number of envs per rank that the run really has.
        tally: the run's counters, equal on all ranks.
    """

    def __init__(self, world, config, given):
        self._world, self._phases = world, Phases()
        pinning.pin_threads()
        places = world.gather(pinning.describe())
        start = world.on_root(find_start, config, given, world.size)
        self.config = config = start.config
        self._folder, self._knowledge = start.folder, start.knowledge
        policy = build.make_policy(config, start.knowledge)
        self._learner = Learner(policy, build.make_optimizer(config, policy), config, world, self._phases)
        self.tally = Tally()
        self._unsaved = 0  # rollouts learned from since the last checkpoint
        first = world.rank * config.envs_per_rank
        envs = [Env(index, config, start.knowledge) for index in range(first, first + config.envs_per_rank)]
        if start.saved:
            snapshot.apply(*start.saved, policy, self._learner, self.tally, envs)
        world.broadcast_(policy.theta)
        self._player = Player(envs, start.knowledge.codes, config, self._phases)
        self._network = policy.expand()
        before, self._restarts = world.on_root(self._start_records, places)
        self._meter = Meter(world, self._phases, before, self.tally.env_steps)
        if world.rank == 0:
            self._banner(places, start.path)

    # -- the loop's verbs -------------------------------------------------------------------------------

    def play(self, stop=False):
        """Play one round of this rank's envs: True, or False where ``stop`` became true on a rank.

        Then every env is back where it was: a late round takes seconds, and a batch system may not leave them.
        """
        self._stage = stage(self.config, self.tally.env_steps)
        before = [env.state() for env in self._player.envs]
        self._trajectories = self._player.play(self._network, self._stage.rollouts, stop)
        with self._phases("wait"):  # for the ranks that play longest
            (stopped,) = self._world.any(stop)
        if stopped:
            for env, state in zip(self._player.envs, before):
                env.restore(*state)
            return False
        steps = sum(t.length for t in self._trajectories)
        self._learner.flops += self._network.flops(steps, sum(int(t.counts.sum()) for t in self._trajectories))
        return True

    def learn(self):
        """Learn from the round that was played, and count it."""
        trajectories = self._trajectories
        self._stats = self._learner.update(trajectories, self._player.envs[0].shuffle, self._stage)
        with self._phases("allreduce"):
            played = self._world.gather_all(
                [(t.length, t.games, float(t.rewards.sum()), int(np.count_nonzero(t.rewards))) for t in trajectories]
            )
        steps, games, reward_sums, reward_counts = zip(*(env for rank in played for env in rank))
        self.tally.add(sum(steps), [game for env in games for game in env])
        self._stats |= {"reward_sum": sum(reward_sums), "reward_count": sum(reward_counts)}
        with self._phases("inference"):
            self._learner.policy.refresh(self._network, self._learner.touched)

    def report(self):
        """Write this update's metrics and show the progress."""
        tally, learner = self.tally, self._learner
        timing = self._meter.read(tally.env_steps, learner.flops)
        if self._world.rank:
            return
        self._metrics = {
            "update": tally.update,
            "env_steps": tally.env_steps,
            "frames": tally.env_steps * self.config.frame_skip,
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
            self._log.write(self._metrics)
            if self._tensorboard:
                self._tensorboard.write(self._metrics)
            self._progress.show(self._metrics)

    def keep(self):
        """Prove that the ranks agree and save the run, each when it is due.

        An update that has grown to k rollouts counts k times, so that a late checkpoint is not k times as long away.
        """
        if self.tally.update % self.config.sync_check_every == 0:
            self.check_weights()
        self._unsaved += self._stage.rollouts
        if self._unsaved >= self.config.checkpoint_every:
            self.save()

    def check_weights(self):
        """Prove that all ranks hold the same weights, bit for bit. Raises ``RuntimeError`` naming those that differ."""
        digest = hashlib.blake2b(self._learner.policy.theta, digest_size=8).digest()
        digests = self._world.gather_all(digest)
        common = max(digests, key=lambda d: (digests.count(d), d == digests[0]))
        strays = [rank for rank, digest in enumerate(digests) if digest != common]
        if strays:
            error = RuntimeError(
                f"after update {self.tally.update} the weights of rank {', '.join(map(str, strays))} differ from the "
                "others': a machine error, or ranks that run different libraries; nothing was saved since they differ"
            )
            error.agreed = True
            raise error

    def save(self):
        """Write a checkpoint of the whole run, after a proof that its ranks agree."""
        with self._phases("record"):
            self.check_weights()
            learner, envs = self._learner, self._player.envs
            content = snapshot.collect(self._world, self.config, self._knowledge, learner, self.tally, envs)
            self._world.on_root(save_checkpoint, self._folder, self.tally.env_steps, content, self.config)
            self._unsaved = 0

    def finish(self, reason, finished, stop):
        """Save, say why it ends and how long after a signal, and mark the folder DONE if it is finished."""
        self.save()
        waited = self._world.max_(np.array([stop.age()]))[0]
        self._world.on_root(self._close, reason, finished, waited)

    # -- rank 0 alone -----------------------------------------------------------------------------------

    def _start_records(self, places):
        """Open the logs; training seconds and starts of the folder so far."""
        config, folder = self.config, self._folder
        folder.reopen()  # finish() marks it again if the budget is not larger
        facts = provenance(sys.argv, self._world.size, self._world.mpi_version(), places)
        restarts = folder.begin(dataclasses.asdict(config), facts)
        self._log = MetricsLog(folder.file("metrics.jsonl"), self.tally.update)
        self._progress = Progress(config, STARTED, reaches_terminal(sys.stdout))
        self._metrics = self._tensorboard = None
        if config.track:
            self._tensorboard = TensorBoard(folder.file("tensorboard"), self.tally.env_steps)
        return self._log.seconds_before, restarts

    def _close(self, reason, finished, waited):
        if self._tensorboard:
            self._tensorboard.close()
        if self._metrics:
            self._progress.show(self._metrics, force=True)
        facts = {"reason": reason, **self.tally.metrics(), "env_steps": self.tally.env_steps}
        if finished:
            self._folder.write_done(facts)
            self._progress.say(f"finished: {reason}. Run folder: {self._folder.path}")
        else:
            saved = f"Checkpoint saved {waited:.2f} s later" if waited else "Checkpoint saved"
            self._progress.say(f"stopped: {reason}. {saved}; the same command goes on. {self._folder.path}")

    def _banner(self, places, resumed_from):
        config, say = self.config, self._progress.say
        hosts = sorted({place["host"] for place in places})
        say(f"pg_mpi {__version__}: {config.env_id}, preset {config.preset}, seed {config.seed}")
        say(
            f"{self._world.size} ranks on {len(hosts)} hosts ({', '.join(hosts[:8])}), MPI: {self._world.mpi_version()}"
        )
        for rank, place in list(enumerate(places))[:8]:
            threads = f"{place['threads']} BLAS thread{'s' if place['threads'] > 1 else ''}"
            say(f"  rank {rank}: cores {place['cores']}, {threads} ({place['blas']})")
        actions, size = len(self._knowledge.codes), self._learner.policy.theta.size
        say(f"policy: {actions} actions, {size:,} parameters; {config.features} features")
        if resumed_from:
            say(f"resumed from {resumed_from}: update {self.tally.update}, {self.tally.env_steps:,} steps")
        else:
            say(f"new run in {self._folder.path}")
