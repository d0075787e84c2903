"""``--reproducible``: the same bits on any number of ranks that share the same envs."""

import pytest
from jobs import SMALL, STEPS, command, deterministic, newest, run

from pg_mpi.files import checkpoint_file

ENVS = 24
BY_STEPS = [*STEPS, "--num-steps", "64"]
EPISODE = ["--max-frames", "400"]
KARPATHY = ["--preset", "karpathy", *EPISODE]


def weights_after(cwd, ranks, updates, *flags, folder=None):
    """The bytes of the newest checkpoint after so many updates on so many ranks."""
    folder = folder or f"on-{ranks}"
    steps = (64 if "--sync" in flags else 100) * ENVS * updates
    envs = ["--envs-per-rank", ENVS // ranks, "--seed", 5, "--run-dir", folder, "--total-timesteps", steps]
    done = run(command(ranks, "pg_mpi.train", *SMALL, *flags, *envs), cwd)
    assert done.returncode == 0, done.stderr
    return newest(cwd, folder)[1]


@pytest.mark.parametrize(
    "flags, counts",
    [(EPISODE, (3, 8)), ([*BY_STEPS, *EPISODE], (2, 3, 4, 8)), (KARPATHY, (4,))],
    ids=["episode", "steps", "karpathy"],
)
def test_the_same_bits_on_any_number_of_ranks(tmp_path, flags, counts):
    one = weights_after(tmp_path, 1, 2, "--reproducible", *flags)
    for ranks in counts:
        assert weights_after(tmp_path, ranks, 2, "--reproducible", *flags) == one, f"{ranks} ranks"
        lines = [{**line, "ranks": 1} for line in deterministic(tmp_path, f"on-{ranks}")]
        assert lines == deterministic(tmp_path, "on-1")


def test_it_is_the_flag_that_does_it(tmp_path):
    """Without it, ranks make a difference; and it is part of what a run is."""
    flags = [*BY_STEPS, *EPISODE]
    assert weights_after(tmp_path, 1, 1, *flags) != weights_after(tmp_path, 3, 1, *flags)
    path, _ = newest(tmp_path, "on-1")
    assert checkpoint_file.load(path)[1]["identity"]["reproducible"] is False


def test_other_ranks_take_over_without_a_trace(tmp_path):
    """2 updates on 2 ranks, 1 on 3, 1 on 1: the bits of 4 on 4."""
    flags = ["--reproducible", *BY_STEPS, *EPISODE]
    for ranks, updates in ((2, 2), (3, 3), (1, 4)):
        end = weights_after(tmp_path, ranks, updates, *flags, folder="changing")
    assert end == weights_after(tmp_path, 4, 4, *flags)
