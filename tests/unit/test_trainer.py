"""The operations of a run agree on all ranks, and skipped updates are counted in a row."""

import os
from types import SimpleNamespace

import numpy as np
import pytest

from pg_mpi.config.command_line import parse_train
from pg_mpi.config.errors import SystemFault
from pg_mpi.learning.rollout import Env
from pg_mpi.mpi.world import World
from pg_mpi.run.trainer import Trainer
from scaling.model.virtual.world import Hub


def cartpole(tmp_path, *more):
    flags = ["--env-id", "CartPole-v1", "--hidden", "4", "--num-steps", "8", "--run-dir", str(tmp_path / "run"), *more]
    return Trainer(World(), *parse_train(flags))


def test_skipped_updates_are_counted_in_a_row(tmp_path):
    t, found = cartpole(tmp_path), []
    policy = t.learner.policy
    backward = policy.backward
    for bad in (True, True, False, True):

        def faulty(theta, x, hidden, d_outputs, out, bad=bad):
            backward(theta, x, hidden, d_outputs, out)
            out[0] = np.nan if bad else out[0]

        policy.backward = faulty
        t.learn(t.play())
        found.append((t.learner.skipped, t.learner.skipped_in_row))
    assert found == [(1, 1), (2, 2), (2, 0), (3, 1)]


def test_failed_start_closes_its_envs_and_unlocks_the_folder(tmp_path, monkeypatch):
    closed, make = [], Trainer._make_env
    monkeypatch.setattr(Trainer, "_make_env", lambda trainer, index: make(trainer, index if index < 2 else 1 // 0))
    monkeypatch.setattr(Env, "close", lambda env: closed.append(env.index))
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            cartpole(tmp_path, "--envs-per-rank", "4")
    assert closed == [0, 1] * 2


def test_run_whose_trace_cannot_be_written_is_not_finished(tmp_path):
    t = cartpole(tmp_path, "--trace")
    t.learn(t.play())
    t.report()
    with open("/dev/full", "wb") as full:
        os.dup2(full.fileno(), t._trace._file)
    with pytest.raises(SystemFault, match=r"trace/host-.*json cannot be written \(No space left") as caught:
        t.finish("the end", finished=True, stop=SimpleNamespace(age=lambda: 0.0))
    assert (caught.value.code, caught.value.agreed) == (75, True) and not (tmp_path / "run" / "DONE").exists()
    t.close()


def test_stop_of_one_rank_discards_the_round_of_all(tmp_path):
    config = parse_train(
        ["--env-id", "CartPole-v1", "--hidden", "4", "--num-steps", "8", "--run-dir", str(tmp_path / "run")]
    )

    def main(world):
        world.divides = False
        return Trainer(world, *config).play(world.rank == 1)

    assert Hub(2, lambda size: 0.0).run(main) == [None] * 2
