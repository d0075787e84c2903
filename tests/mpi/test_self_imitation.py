"""``--replay``: self-imitation from the replay buffer of each rank, and bit-exact resume."""

import os

import numpy as np
import pytest
from jobs import STEPS, metrics, newest, refused_start, train, train_and_resume

from pg_mpi.config.settings import TrainConfig
from pg_mpi.files import checkpoint_file
from pg_mpi.learning.phases import PhaseTimer
from pg_mpi.learning.sample_groups import SampleGroup
from pg_mpi.learning.self_imitation.source import SelfImitation
from pg_mpi.learning.trajectory import Trajectory
from pg_mpi.mpi.world import World
from pg_mpi.policy.sparse_mlp import SparseMLP

REPLAY = [*STEPS, "--replay", "--max-frames", 400]


def test_resume_is_bit_exact(tmp_path):
    """The buffers are full, so that old transitions are overwritten."""
    ranks = 2
    whole, _ = train_and_resume(tmp_path, ranks, *REPLAY, budgets=(800 * ranks, 1600 * ranks), module="small_replay")
    arrays, facts = checkpoint_file.load(newest(whole)[0])
    assert len(facts["replay"]) == ranks
    assert {len(arrays[f"replay_{rank}_returns"]) for rank in range(ranks)} <= {*range(500, 701)}
    lines = metrics(whole)
    assert lines[0]["replay_loss"] == 0 and lines[0]["exchanges"] + 3 < lines[-1]["exchanges"]
    last = lines[-1]
    assert 0 < last["replay_share"] <= 1 and last["replay_gain"] > 0 and last["replay_loss"] > 0


def test_buffers_are_redistributed_on_another_number_of_ranks(tmp_path):
    """One rank takes over the buffers of two. On three ranks two start with an empty buffer."""
    sizes = []
    for ranks, steps, flags in ((2, 1500, ["--envs-per-rank", 3]), (1, 2300, []), (3, 3000, [])):
        train(ranks, tmp_path, *REPLAY, "--total-timesteps", steps, *flags)
        arrays, facts = checkpoint_file.load(newest(tmp_path)[0])
        assert len(facts["replay"]) == ranks
        sizes.append([len(arrays[f"replay_{rank}_returns"]) for rank in range(ranks)])
    (one,), (first, *others) = sizes[1:]
    assert min(sizes[0]) > 0 and sum(sizes[0]) < one < first and 0 < max(others) < first


def test_buffer_stores_steps_up_to_the_last_complete_return():
    trajectory = Trajectory()
    for number, reward in enumerate([0.0, -1.0, 0.0, 0.0, 1.0, 0.0, 0.0]):
        trajectory.record(np.array([number, number + 50]), number % 3, -0.5, 0.0, reward, reward != 0)
    policy = SparseMLP(60, 4, 3)
    source = SelfImitation(policy, TrainConfig(gamma=0.5), World(), PhaseTimer())
    source.prepare([SampleGroup([trajectory], None, 0, 1)])
    source.finish()
    observed, counts, actions, returns = source.replay.read(np.arange(5))
    assert len(source.replay) == 5 and returns.tolist() == [-0.5, -1.0, 0.25, 0.5, 1.0]
    assert observed.tolist() == [0, 50, 1, 51, 2, 52, 3, 53, 4, 54] and counts.tolist() == [2] * 5
    assert actions.tolist() == [0, 1, 2, 0, 1]


@pytest.mark.parametrize(
    "flags, message",
    [
        (["--replay", "--method", "reinforce"], "--replay needs a value function"),
        (["--replay", "--reproducible"], "leave --reproducible out"),
        (["--replay", "--rewards", "scaled"], "give sign or raw"),
        (["--replay-size", "700"], "unknown argument --replay-size (did you mean --replay?)"),
    ],
)
def test_bad_input_is_refused_before_writing(tmp_path, monkeypatch, flags, message):
    monkeypatch.chdir(tmp_path)
    assert message in refused_start(2, *flags) and os.listdir(tmp_path) == []
