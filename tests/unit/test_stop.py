"""An interrupted round is discarded: the envs keep their state, and the next round is the same as without it."""

import numpy as np
import pytest

from pg_mpi.config.command_line import parse_train
from pg_mpi.mpi.world import World
from pg_mpi.run import evaluations
from pg_mpi.run.trainer import Trainer

SYNCS = {"episode": ["--games-per-update", "1"], "steps": ["--sync", "steps", "--num-steps", "96"]}


class StopAfter:
    """A stop flag that is False for the first ``times`` reads and then True."""

    def __init__(self, times):
        self.remaining = times

    def __bool__(self):
        self.remaining -= 1
        return self.remaining < 0


def make_trainer(folder, sync):
    args = ["--run-dir", str(folder), "--envs-per-rank", "2", "--hidden", "8", "--minibatch-size", "64", *SYNCS[sync]]
    return Trainer(World(), *parse_train(args))


def play_round(trainer):
    """Play a round: (length, games, rewards, actions) of each trajectory."""
    return [(t.length, t.games, t.rewards.tolist(), t.actions.tolist()) for t in trainer.play()]


@pytest.mark.parametrize("sync", SYNCS)
def test_interrupted_round_does_not_change_the_envs(tmp_path, sync):
    one, other = make_trainer(tmp_path / "one", sync), make_trainer(tmp_path / "other", sync)
    for times in (0, 1, 50):
        before = [env.state() for env in one.player.envs]
        assert one.play(StopAfter(times)) is None
        for env, (arrays, facts) in zip(one.player.envs, before):
            found, found_facts = env.state()
            assert found_facts == facts and all(np.array_equal(found[name], arrays[name]) for name in arrays)
    assert play_round(one) == play_round(other)


def test_evaluation_ends_at_a_stop(tmp_path):
    """Games of the evaluation are no games of the training, so nothing of it remains."""
    trainer = Trainer(World(), *parse_train(["--run-dir", str(tmp_path), "--env-id", "CartPole-v1"]))
    ended = []

    def evaluate(stop):
        ended.clear()
        policy = trainer.learner.policy
        return evaluations.evaluate(World(), trainer.config, trainer.env_spec, policy, stop, lambda: ended.append(1))

    score = evaluate(False)
    assert 8 < score < 60 and len(ended) == evaluations.GAMES == 20
    assert evaluate(StopAfter(10)) is None and len(ended) <= 2
    assert evaluate(False) == score
