"""A training run and the operations of the loop in ``train.py``.

Play a round, learn from it, report its metrics, save, evaluate, and continue without failed ranks.
"""

import platform
import sys
from collections.abc import Callable, Collection
from typing import Any, cast

import numpy as np

from pg_mpi.config.errors import RunError
from pg_mpi.config.settings import TrainConfig
from pg_mpi.features import native_encoder
from pg_mpi.files.provenance import provenance
from pg_mpi.files.run_folder import RunFolder
from pg_mpi.files.trace_file import Trace
from pg_mpi.learning.learner import Learner
from pg_mpi.learning.phases import PhaseTimer
from pg_mpi.learning.rollout import Env, Player
from pg_mpi.learning.round_length import round_length
from pg_mpi.learning.sample_groups import sample_groups
from pg_mpi.learning.schedule import plan
from pg_mpi.learning.trajectory import Trajectory
from pg_mpi.mpi import clocks, thread_pinning
from pg_mpi.mpi.signals import Stop
from pg_mpi.mpi.world import World
from pg_mpi.policy.interface import Policy
from pg_mpi.run import env_states, evaluations, factory, rank_placement, rank_times, run_state
from pg_mpi.run.counters import Counters
from pg_mpi.run.elastic import BuddyCopies, StopOrLost
from pg_mpi.run.resume import Start, begin
from pg_mpi.run.round_counts import count_round
from pg_mpi.run.run_log import RunLog
from pg_mpi.run.saving import Saving, choose_group
from pg_mpi.run.step_division import ranks_per_step
from pg_mpi.run.throughput import Throughput
from pg_mpi.run.weight_checks import check_gradient, check_weights


class Trainer:
    """A run in its folder, new or resumed.

    Collective: every rank must call the constructor and each method.

    Args:
        parts: makes the policy and the learner, as ``factory`` does.

    Attributes:
        config: the settings, with the actual number of envs per rank.
        counters: the run's counters, equal on all ranks.
        env_spec, learner, player: the ``EnvSpec``, the ``Learner`` and the ``Player`` of the run.
        network: the policy's current weights, for ``player``.
        phases: the seconds of the phases of this update.
        played: steps of this rank in the newest round.
        run_log: the ``RunLog`` of rank 0; on other ranks it is never open.
    """

    def __init__(self, world: World, config: TrainConfig, given: Collection[str], parts: Any = factory) -> None:
        self._world = world
        thread_pinning.pin_threads()
        where = rank_placement.summary(world, thread_pinning.describe() | {"why_numpy": native_encoder.WHY_NUMPY})
        self._folder = RunFolder(config.folder)
        self._envs: list[Env] = []
        self._trace: Trace | None = None
        try:
            start, states = begin(world, self._folder, config, given, where["hosts"])
            self._set_up(start, states, where, parts)
        except BaseException:
            self.close()  # a caller in Python may try again
            raise

    def _set_up(self, start: Start, states: env_states.GroupStates | None, where: dict[str, Any], parts: Any) -> None:
        world, config = self._world, start.config
        self.config = config
        self.env_spec = start.env_spec
        self.phases = PhaseTimer(world.clock)
        policy: Policy = parts.make_policy(config, start.env_spec)
        self.learner: Learner = parts.make_learner(
            config, policy, world, self.phases, ranks_per_step(world, config, where["hosts"])
        )
        self.counters = Counters()
        self._stats: dict[str, Any] | None = None  # metrics of the newest update
        self._flops = 0  # of this rank's sampling since it started
        self.played = 0
        self._envs_in_all = world.size * config.envs_per_rank
        first = world.rank * config.envs_per_rank
        for index in range(first, first + config.envs_per_rank):
            self._envs.append(self._make_env(index))
        if states:
            run_state.restore(world, start.saved, self.learner, self.counters)
            env_states.scatter(world, states, self.learner, self._envs)
        world.broadcast_(policy.theta)
        if policy.norm:
            world.broadcast_(policy.norm.state)
            policy.norm.refresh()
        self.player = Player(self._envs, start.env_spec.codes, config, self.phases)
        self.network = policy.expand()
        self.run_log = RunLog(world.clock, config, self._folder, self.counters)
        before, self._restarts = world.on_root(self._open_run_log, where)
        group = choose_group(world, config, where["hosts"], self._folder)
        self._saving = Saving(self._folder, config, group, world.clock, self.run_log.sync)
        if config.trace:
            self._trace = self._open_trace(platform.node())
        self._throughput = Throughput(world, self.phases, before, self.counters.env_steps)
        if world.rank == 0:
            self.run_log.banner(self.env_spec, policy, start.path)
        self._copies = BuddyCopies(world, self._envs_in_all) if config.elastic else None
        self._losses: list[tuple[list[int], int]] = []  # failed ranks that were not printed, and ranks left
        self._keep_in_memory()

    @property
    def seconds(self) -> float:
        """Training seconds of this run folder so far, start-up included."""
        return self._throughput.seconds()

    # -- operations of the loop ---------------------------------------------------------------------------

    def play(self, stop: object = False) -> list[Trajectory] | None:
        """Play one round of this rank's envs: a list of ``Trajectory``, one per env.

        None if ``stop`` became true on a rank. The partial round is then discarded, and every env is restored to the
        start of the round, or begins a new game if it cannot be saved.
        """
        if self._copies:
            stop = StopOrLost(stop, self._world)
        length = round_length(self.config, self._envs_in_all, self.counters.recent)
        before = [env.state() for env in self._envs]
        with self.phases.around("play"):
            trajectories = self.player.play(self.network, length, stop)
        with self.phases("wait"):  # for the slowest rank
            (stopped,) = self._world.any(stop)
        if stopped:
            for env, state in zip(self._envs, before):
                env.restore(*state)
            self.phases.clear()
            return None
        self.played = sum(t.length for t in trajectories)
        active = sum(int(t.counts.sum()) for t in trajectories)
        self._flops += self.network.flops(self.played, active)
        return trajectories

    def learn(self, trajectories: list[Trajectory]) -> None:
        """Run one update on a round of ``play`` and count it, on all ranks or on none."""
        with self.phases("allreduce"):
            counts = count_round(self._world, self._envs, trajectories)
        groups = sample_groups(trajectories, self._envs, self.config, self._world, self._envs_in_all)
        planned = plan(self.config, counts.env_steps, self.counters.anneal_steps)
        self._stats = self.learner.update(groups, planned, self._keep_in_memory)
        check_gradient(self.learner.skipped_in_row, self.counters.update + 1)
        recent = counts.recent.tolist()
        self.counters.add(counts.env_steps, counts.games, recent, counts.emulator_errors, planned.progress)
        self._saving.unsaved += 1
        self._stats |= {"reward_sum": counts.reward_sum, "reward_count": counts.reward_count}
        with self.phases("inference"):
            self.learner.refresh(self.network)

    def report(self) -> None:
        """Write this update's metrics and print the progress. Collective: every rank must call this."""
        counters, learner = self.counters, self.learner
        if self._trace:
            self._world.on_every(self._trace.add, counters.update, self.phases, self.played)
        timing = self._throughput.read(counters.env_steps, self._flops + learner.flops)
        if self._world.rank:
            return
        metrics = {
            "update": counters.update,
            "env_steps": counters.env_steps,
            "frames": counters.env_steps * self.config.frame_skip,
            **counters.metrics(),
            **cast(dict[str, Any], self._stats),
            **timing,
            "ranks": self._world.size,
            "exchanges": learner.exchanges,
            "bytes_exchanged": learner.bytes_exchanged,
            "restarts": self._restarts,
            "skipped_updates": learner.skipped,
        }
        with self.phases("record"):
            self.run_log.write(metrics)

    def after_update(self, stop: object = False, progress: Callable[[], None] = lambda: None) -> None:
        """Check the weights, save and evaluate, each when it is due.

        ``stop`` ends an evaluation before its time; ``progress()`` is called after each of its games.
        """
        if not self._save_when_due():
            return
        with self.phases("record"):
            score = evaluations.evaluate(self._world, self.config, self.env_spec, self.learner.policy, stop, progress)
            if score is not None:  # else ``stop`` became true, or an emulator failed
                self._world.on_root(self.run_log.evaluated, self.counters.env_steps, score)

    def _save_when_due(self) -> bool:
        """Check the weights and save, each when it is due; returns whether an evaluation is due."""
        if self.counters.update % self.config.sync_check_every == 0:
            check_weights(self._world, self.learner.policy.theta, self.counters.update)
        evaluates = self.config.evaluate_every > 0 and self.counters.update % self.config.evaluate_every == 0
        if evaluates or self._saving.is_due(self._world):
            self.save()
        return evaluates

    def save(self) -> None:
        """Write a checkpoint of the whole run, after a check that all ranks hold equal weights."""
        with self.phases("record"):
            learner = self.learner
            check_weights(self._world, learner.policy.theta, self.counters.update)
            layout = self._saving.layout(self._world, self._envs_in_all)
            whole = run_state.collect(self.config, self.env_spec, learner, self.counters)
            states = env_states.gather(self._world, self._envs, learner.replay_state(), layout.group)
            self._saving.write(self._world, self.counters.env_steps, whole, states, layout)
            times = rank_times.summary(self._world, self._throughput.totals)
            if self._world.rank == 0:
                self.run_log.write_ranks(self._restarts, times)

    def finish(self, reason: str, finished: bool, stop: Stop) -> None:
        """Save what is not saved, print the reason and the time since a signal; mark the folder DONE if finished."""
        if self._saving.unsaved or not self._saving.has_saved:
            self.save()
        if self._trace:
            self._world.on_every(self._trace.finish, self.counters.update, self.phases)
        waited = self._world.max_(np.array([stop.age()]))[0]
        self._world.on_root(self.run_log.close, reason, finished, waited)
        if self._copies:
            self._world.agree()  # else some ranks leave while others wait for them

    def close(self) -> None:
        """Close the environments, and give the run folder's lock back, which ``finish`` does too. Not collective."""
        for env in self._envs:
            env.close()
        if self._trace:
            self._trace.close()
        self._folder.unlock()

    # -- failed ranks -------------------------------------------------------------------------------------

    def _keep_in_memory(self) -> None:
        """With ``--elastic``, copy the envs' states to another rank. Collective."""
        if self._copies:
            with self.phases("record"):
                self._copies.exchange(self._envs)

    def survive(self, error: Exception) -> bool:
        """Discard the round and continue without failed ranks; False if ``error`` is not a rank failure.

        Collective: every surviving rank must call this.
        """
        begun = self._world.clock()
        while self._copies and (self._world.is_loss(error) or self._world.broken()):
            try:
                self._shrink(begun)
                return True
            except Exception as another:  # another rank may fail
                if not self._world.is_loss(another):
                    raise
        return False

    def _shrink(self, begun: float) -> None:
        world, learner = self._world, self.learner
        self._losses.append((world.shrink(), world.size))  # in this order: shrinking changes the size
        self.phases.clear()
        learner.restore(learner.kept)
        update = self.counters.update
        high, low = map(int, world.max_(np.array([update, -update])))
        self._saving.agree(world)
        if high != -low:
            raise RuntimeError(f"the surviving ranks are at different updates: {-low} to {high}")
        self._envs[:] = cast(BuddyCopies, self._copies).redistributed(self._envs, self._make_env)
        written = world.on_root(self._log_losses, begun)
        self._losses.clear()
        self._keep_in_memory()
        if self._stats:  # the newest update may lack its report or checkpoint
            if written < self.counters.update:
                self.report()
            self._save_when_due()

    def _make_env(self, index: int) -> Env:
        """An env; restored later, or restarted after the current update with its own random streams."""
        return Env(index, self.config, self.env_spec, self.counters.update)

    def _log_losses(self, begun: float) -> int:
        """Print the failed ranks, on a new rank 0 too; returns the update of the last metrics line."""
        if not self.run_log.is_open:
            if not self._folder.starts():
                raise RunError(
                    f"rank 0 failed, and the host of the new rank 0 does not see the run folder {self._folder.path}: "
                    "use a folder that all hosts share"
                )
            self._folder.open()
            self._folder.claim()
            self.run_log.take_over(self.counters.update)
        return self.run_log.lost(self._losses, self._world.clock() - begun)

    # -- output -------------------------------------------------------------------------------------------

    def _open_run_log(self, where: dict[str, Any]) -> tuple[float, int]:
        facts = provenance(sys.argv, self._world.size, self._world.mpi_version(), where)
        return self.run_log.open(facts)

    def _open_trace(self, host: str) -> Trace:
        """Open this rank's trace; its time 0 is now, on rank 0's clock."""
        folder = self._world.on_root(self._folder.make, "trace")
        zero = self._world.broadcast_(np.array([self._world.clock()]))[0]
        zero += clocks.ahead(self._world, self._world.clock, rounds=21)
        trace: Trace = self._world.on_every(Trace, folder, self._world.rank, host, self._restarts, zero)
        return trace
