"""``--reproducible``: the same checkpoint on any number of ranks."""

import pytest
from jobs import SMALL, STEPS, command, deterministic, newest, run

from pg_mpi.files import checkpoint_file

ENVS = 12
ROLLOUTS = [*STEPS, "--num-steps", "64"]
EPISODE = ["--max-frames", "400"]
KARPATHY = ["--preset", "karpathy", *EPISODE]


def weights_after(cwd, ranks, updates, *flags, folder=None):
    """Train ``updates`` updates on ``ranks`` ranks and return the bytes of the newest checkpoint."""
    folder = folder or f"on-{ranks}"
    steps = (64 if "--sync" in flags else 100) * ENVS * updates
    envs = ["--envs-per-rank", ENVS // ranks, "--seed", 5, "--run-dir", folder, "--total-timesteps", steps]
    result = run(command(ranks, "pg_mpi.train", *SMALL, *flags, *envs), cwd)
    assert result.returncode == 0, result.stderr
    return newest(cwd, folder)[1]


@pytest.mark.parametrize(
    "flags, counts",
    [(EPISODE, (3,)), ([*ROLLOUTS, *EPISODE], (2, 4)), (KARPATHY, (4,))],
    ids=["episode", "steps", "karpathy"],
)
def test_checkpoints_are_equal_on_any_number_of_ranks(tmp_path, flags, counts):
    one = weights_after(tmp_path, 1, 2, "--reproducible", *flags)
    for ranks in counts:
        assert weights_after(tmp_path, ranks, 2, "--reproducible", *flags) == one, f"{ranks} ranks"
        lines = [{**line, "ranks": 1} for line in deterministic(tmp_path, f"on-{ranks}")]
        assert lines == deterministic(tmp_path, "on-1")


def test_weights_depend_on_the_ranks_without_the_flag(tmp_path):
    """The checkpoint's identity records the flag."""
    flags = [*ROLLOUTS, *EPISODE]
    assert weights_after(tmp_path, 1, 1, *flags) != weights_after(tmp_path, 3, 1, *flags)
    path, _ = newest(tmp_path, "on-1")
    assert checkpoint_file.load(path)[1]["identity"]["reproducible"] is False


def test_resume_on_other_numbers_of_ranks_is_equal(tmp_path):
    """2 updates on 2 ranks, 1 on 3 and 1 on 1 equal 4 updates on 4 ranks."""
    flags = ["--reproducible", *ROLLOUTS, *EPISODE]
    for ranks, updates in ((2, 2), (3, 3), (1, 4)):
        last = weights_after(tmp_path, ranks, updates, *flags, folder="changing")
    assert last == weights_after(tmp_path, 4, 4, *flags)
