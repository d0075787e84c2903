"""``--replay``: self-imitation from the replay buffer of each rank, and bit-exact resume."""

from pathlib import Path

import numpy as np
import pytest
from jobs import ROOT, SMALL, STEPS, command, deterministic, metrics, newest, one_line, run, train

from pg_mpi.config.settings import TrainConfig
from pg_mpi.files import checkpoint_file
from pg_mpi.learning.advantages import discounted_returns
from pg_mpi.learning.sample_groups import SampleGroup
from pg_mpi.learning.self_imitation.source import SelfImitation
from pg_mpi.learning.trajectory import Trajectory
from pg_mpi.mpi.world import World
from pg_mpi.policy.sparse_mlp import SparseMLP
from pg_mpi.run.phase_timer import PhaseTimer

REPLAY = [*STEPS, "--replay", "--max-frames", 400]


@pytest.mark.mpi
def test_resume_is_bit_exact(tmp_path, ranks=2):
    """The buffers are full, so that old transitions are overwritten."""
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    whole.mkdir(), resumed.mkdir()

    def train(cwd, budget):
        line = command(ranks, "small_replay", "--run-dir", "run", *SMALL, *REPLAY, "--total-timesteps", budget * ranks)
        result = run(line, cwd, PYTHONPATH=f"{ROOT}:{Path(__file__).parent}")
        assert result.returncode == 0, result.stderr

    train(whole, 2400)
    for budget in (1000, 2400):
        train(resumed, budget)
    assert newest(whole)[1] == newest(resumed)[1]
    assert deterministic(whole) == deterministic(resumed)
    arrays, facts = checkpoint_file.load(newest(whole)[0])
    assert len(facts["replay"]) == ranks
    assert {len(arrays[f"replay_{rank}_returns"]) for rank in range(ranks)} <= {*range(500, 701)}
    lines = metrics(whole)
    assert lines[0]["replay_loss"] == 0 and lines[0]["exchanges"] + 3 < lines[-1]["exchanges"]
    last = lines[-1]
    assert 0 < last["replay_share"] <= 1 and last["replay_gain"] > 0 and last["replay_loss"] > 0


@pytest.mark.mpi
def test_buffers_are_redistributed_on_another_number_of_ranks(tmp_path):
    """One rank takes over the buffers of two. On three ranks two start with an empty buffer."""
    sizes = []
    for ranks, steps, flags in ((2, 3000, ["--envs-per-rank", 3]), (1, 4000, []), (3, 5000, [])):
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
    assert discounted_returns([0, -1, 0, 0, 1], [0, 1, 0, 0, 1], 0.5).tolist() == [-0.5, -1.0, 0.25, 0.5, 1.0]
    assert observed.tolist() == [0, 50, 1, 51, 2, 52, 3, 53, 4, 54] and counts.tolist() == [2] * 5
    assert actions.tolist() == [0, 1, 2, 0, 1]


@pytest.mark.parametrize(
    "flags, message",
    [
        (["--replay", "--method", "reinforce"], "--replay needs a value function"),
        (["--replay", "--reproducible"], "leave --reproducible out"),
        (["--replay-size", "700"], "unknown argument --replay-size (did you mean --replay?)"),
    ],
)
def test_bad_input_is_refused_with_one_line(tmp_path, flags, message):
    refused = run(command(2, "pg_mpi.train", "--run-dir", "run", *SMALL, *flags), tmp_path)
    assert refused.returncode == 2 and message in one_line(refused) and not (tmp_path / "run").exists()
