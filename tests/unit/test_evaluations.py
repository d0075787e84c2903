"""Evaluations during a run: the same on any number of ranks, and the best checkpoint is kept."""

import os
from pathlib import Path

import pytest
from test_trainer import cartpole

from pg_mpi.config.command_line import parse_train
from pg_mpi.config.errors import UsageError
from pg_mpi.files import checkpoint_folder
from pg_mpi.mpi.world import World
from pg_mpi.run import evaluations
from scaling.model.virtual.world import Hub


def test_ranks_share_the_games_and_agree_on_a_stop(tmp_path):
    t = cartpole(tmp_path)
    args = t.config, t.env_spec, t.learner.policy
    alone = evaluations.evaluate(World(), *args)
    assert Hub(3, lambda size: 0.0).run(lambda world: evaluations.evaluate(world, *args)) == [alone] * 3
    stops = [False, True, False]
    assert (
        Hub(3, lambda size: 0.0).run(lambda world: evaluations.evaluate(world, *args, stops[world.rank])) == [None] * 3
    )


def test_best_is_the_newest_of_equal_scores_and_a_resumed_run_drops_later_ones(tmp_path):
    (tmp_path / "checkpoints").mkdir()

    def add(step, score):
        path = checkpoint_folder.path_of(str(tmp_path / "checkpoints"), step)
        Path(path).touch()
        return evaluations.add(str(tmp_path), path, step, score, 20)

    assert [add(1, 5.0), add(2, 7.0), add(3, 7.0), add(4, 6.0)] == [True, True, True, False]
    assert not add(2, 3.0)  # resumed from step 1
    assert [(each["env_steps"], each["score"]) for each in evaluations.read(str(tmp_path))] == [(1, 5.0), (2, 3.0)]


def test_best_is_a_checkpoint_that_exists(tmp_path):
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    paths = [Path(checkpoint_folder.path_of(str(folder), step)) for step in (1, 2, 3)]
    for step, (path, score) in enumerate(zip(paths, (5.0, 9.0, 7.0), strict=True), 1):
        path.touch()
        evaluations.add(str(tmp_path), str(path), step, score, 20)
    paths[1].unlink()
    evaluations.add(str(tmp_path), "no\0name", 4, 11.0, 20)  # as a damaged file may have it
    assert evaluations.best_checkpoint(str(tmp_path)) == str(paths[2])
    for path in (paths[0], paths[2]):
        path.unlink()
    with pytest.raises(UsageError, match="no checkpoint with a score"):
        evaluations.best_checkpoint(str(tmp_path))


def test_best_checkpoint_is_kept(tmp_path, monkeypatch):
    scores = iter([3.0, 2.0, 1.0])
    monkeypatch.setattr(evaluations, "evaluate", lambda *args: next(scores))
    t = cartpole(tmp_path, "--evaluate-every", "1", "--keep-checkpoints", "1")
    for _ in range(3):
        t.learn(t.play())
        t.report()
        t.after_update()
    names = [os.path.basename(path) for path in checkpoint_folder.candidates(str(tmp_path / "run"))]
    assert len(names) == 2 and os.path.basename(evaluations.best(str(tmp_path / "run"))) == names[1]


def test_evaluation_has_the_seed_of_the_run(tmp_path):
    t = cartpole(tmp_path)
    one, other = (
        evaluations.evaluate(
            World(),
            parse_train(["--env-id", "CartPole-v1", "--hidden", "4", "--seed", s])[0],
            t.env_spec,
            t.learner.policy,
        )
        for s in "01"
    )
    assert one != other


def test_stop_ends_an_evaluation(tmp_path):
    t = cartpole(tmp_path, "--evaluate-every", "1")
    t.learn(t.play())
    t.report()
    t.after_update(True)
    assert not (tmp_path / "run" / "evaluations.json").exists()
    assert (tmp_path / "run" / "checkpoints").exists()
