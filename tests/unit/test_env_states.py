"""Env states in parts: which rank reads which, envs that a loss of ranks has moved, malformed layouts, old parts."""

import os

import numpy as np
import pytest

from pg_mpi.config.command_line import parse_train
from pg_mpi.config.errors import CheckpointError, UsageError
from pg_mpi.config.settings import TrainConfig
from pg_mpi.files import checkpoint_file, checkpoint_folder
from pg_mpi.mpi.world import World
from pg_mpi.run.env_states import Layout, group_size, portion, read_parts
from pg_mpi.run.trainer import Trainer


@pytest.mark.parametrize(
    "flags, ranks, hosts, group",
    [
        ([], 4, 1, 4),
        ([], 5, 2, 3),
        ([], 4096, 32, 128),
        ([], 4096, 1, 1024),
        (["--envs-per-rank", "8"], 512, 4, 128),
        (["--envs-per-rank", "16"], 512, 4, 64),
        (["--envs-per-rank", "5000"], 2, 1, 1),
        (["--replay"], 512, 4, 8),
    ],
)
def test_group_is_a_host_of_at_most_1024_envs(flags, ranks, hosts, group):
    config, _ = parse_train(flags)
    assert isinstance(config, TrainConfig) and group_size(config, ranks, hosts) == group


@pytest.mark.parametrize("saved, ranks", [(1, 1), (4, 4), (12, 4), (4, 12), (12, 8), (8, 12), (3, 2), (2, 3)])
def test_each_env_and_replay_buffer_has_one_rank(saved, ranks):
    envs = [index for rank in range(ranks) for index in portion(24, ranks, rank, rank + 1)]
    assert envs == list(range(24)) == list(portion(24, ranks, 0, ranks))
    buffers = [list(portion(saved, ranks, rank, rank + 1)) for rank in range(ranks)]
    assert sum(buffers, []) == list(range(saved)) == list(portion(saved, ranks, 0, ranks))
    if saved == ranks:
        assert buffers == [[rank] for rank in range(ranks)]


def state(index):
    """A made-up state."""
    return np.full(3 + index, index, np.uint8), np.full(2, index, np.uint8), {"steps": index}


def write_parts(path, layout, divided):
    """Write a checkpoint whose parts hold these envs."""
    os.makedirs(checkpoint_folder.parts_of(path))
    for number, indices in enumerate(divided):
        emulators, encoders, facts = zip(*map(state, indices))
        arrays = {
            "index": np.array(indices),
            "emulators": np.concatenate(emulators),
            "emulator_sizes": np.array([len(each) for each in emulators]),
            "encoders": np.concatenate(encoders),
            "encoder_sizes": np.array([len(each) for each in encoders]),
        }
        checkpoint_file.save(layout.part(path, number), arrays, {"envs": list(facts), "first_rank": 2 * number})


@pytest.mark.parametrize(
    "divided", [[[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]], [[0, 11], [1, 2, 3, 8, 9, 10, 4], [5, 6, 7]]]
)
def test_envs_are_read_from_any_part(tmp_path, divided):
    """After a loss of ranks the envs are not in order."""
    path, layout = str(tmp_path / "step-000000000012.npz"), Layout(envs=12, ranks=6, group=2)
    write_parts(path, layout, divided)
    for rank in range(4):
        states, _ = read_parts(path, layout, portion(12, 4, rank, rank + 1), range(0))
        assert sorted(states) == [3 * rank, 3 * rank + 1, 3 * rank + 2]
        for index, (arrays, facts) in states.items():
            emulator, encoder, expected = state(index)
            np.testing.assert_array_equal(arrays["emulator"], emulator)
            np.testing.assert_array_equal(arrays["encoder"], encoder)
            assert facts == expected
    with pytest.raises(CheckpointError, match="its parts lack some envs"):
        read_parts(path, layout, range(13), range(0))


@pytest.mark.parametrize(
    "parts",
    [
        None,
        [],
        {"envs": 12},
        {"envs": 12, "ranks": 6, "group": 0},
        {"envs": 12, "ranks": 6, "group": 6},
        {"envs": 5, "ranks": 6, "group": 2},
        {"envs": "12", "ranks": 6, "group": 2},
        {"envs": 12, "ranks": 6.0, "group": 2},
        {"envs": 12, "ranks": 6, "group": 2, "more": 1},
    ],
)
def test_malformed_layout_is_refused(parts):
    with pytest.raises(CheckpointError, match="the checkpoint does not hold a valid run"):
        Layout.of({"parts": parts})


def test_forged_size_is_one_line(tmp_path):
    """A file that promises more envs or parts than there are is refused before any memory is taken for them."""
    args = ["--env-id", "CartPole-v1", "--run-dir"]
    trainer = Trainer(World(), *parse_train([*args, str(tmp_path / "good")]))
    trainer.save()
    _, arrays, facts = checkpoint_folder.load_newest(str(tmp_path / "good"), print)
    del facts["envs"]
    path = str(tmp_path / "step-000000000007.npz")
    layout = Layout(10**15, 10**15, 1)
    write_parts(path, layout, [[0, 1]])
    checkpoint_file.save(path, arrays, {**facts, "format": 5, "parts": vars(layout)})
    with pytest.raises(UsageError, match="no usable checkpoint"):
        Trainer(World(), *parse_train([*args, str(tmp_path / "run"), "--resume", path]))
    assert not (tmp_path / "run").exists()


def test_parts_are_kept_and_removed_with_their_file(tmp_path):
    layout = Layout(4, 2, 1)
    paths = [checkpoint_folder.path_of(str(tmp_path), step) for step in (1, 2, 3)]
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "file").touch()
    (tmp_path / "step-000000000009.parts").symlink_to(elsewhere)
    (tmp_path / "mine.parts").mkdir()
    for path in paths:
        write_parts(path, layout, [[0, 1], [2, 3]])
        checkpoint_folder.save(path, {}, {}, keep=2)
    there = {name for name in os.listdir(tmp_path) if name.startswith("step-")} - {"step-000000000009.parts"}
    assert there == {os.path.basename(name) for path in paths[1:] for name in (path, checkpoint_folder.parts_of(path))}
    assert (elsewhere / "file").exists() and (tmp_path / "mine.parts").exists()
    checkpoint_folder.make_parts_folder(paths[2])
    assert len(checkpoint_folder.parts_there(paths[2])) == 2, "parts of a saved file are removed"
    os.remove(paths[2])
    checkpoint_folder.make_parts_folder(paths[2])
    assert not checkpoint_folder.parts_there(paths[2]), "parts of a killed trainer stay"
