"""A round that is broken off at any step leaves no trace, and the next one is the one that would have been played."""

import numpy as np
import pytest

from pg_mpi.config.command_line import parse_train
from pg_mpi.mpi.world import World
from pg_mpi.run.trainer import Trainer

SYNCS = {"episode": ["--games-per-update", "1"], "steps": ["--sync", "steps", "--num-steps", "96"]}


class After:
    """True from the n-th time on that it is asked."""

    def __init__(self, times):
        self.left = times

    def __bool__(self):
        self.left -= 1
        return self.left < 0


def trainer(folder, sync):
    words = ["--run-dir", str(folder), "--envs-per-rank", "2", "--hidden", "8", "--minibatch-size", "64", *SYNCS[sync]]
    return Trainer(World(), *parse_train(words))


def played(trainer):
    """Play a round to its end: what was seen, done and won."""
    return [(t.length, t.games, t.rewards.tolist(), t.actions.tolist()) for t in trainer.play()]


@pytest.mark.parametrize("sync", SYNCS)
def test_a_broken_off_round_leaves_no_trace(tmp_path, sync):
    one, other = trainer(tmp_path / "one", sync), trainer(tmp_path / "other", sync)
    for times in (0, 1, 50):
        before = [env.state() for env in one._player.envs]
        assert one.play(After(times)) is None
        for env, (arrays, facts) in zip(one._player.envs, before):
            now, told = env.state()
            assert told == facts and all(np.array_equal(now[name], arrays[name]) for name in arrays)
    assert played(one) == played(other)
