"""``--reproducible``: the same checkpoint on any number of ranks."""

import pytest
from jobs import SMALL, STEPS, command, deterministic, metrics, newest, run

from pg_mpi.files import checkpoint_file

ROLLOUTS = [*STEPS, "--num-steps", "32"]
EPISODE = ["--max-frames", "400"]
KARPATHY = ["--preset", "karpathy", *EPISODE]


def weights_after(cwd, ranks, updates, *flags, envs=6, folder=None):
    """Train ``updates`` updates of ``envs`` envs on ``ranks`` ranks and return the bytes of the newest checkpoint."""
    folder = folder or f"on-{ranks}"
    steps = (32 if "--sync" in flags else 100) * envs * updates
    more = ["--envs-per-rank", envs // ranks, "--seed", 5, "--run-dir", folder, "--total-timesteps", steps]
    run(command(ranks, "pg_mpi.train", *SMALL, *flags, *more), cwd, code=0)
    return newest(cwd, folder)[1]


def without_ranks(cwd, folder):
    """The metrics that do not depend on the number of ranks."""
    return [{**line, "ranks": None} for line in deterministic(cwd, folder)]


@pytest.mark.parametrize(
    "flags, ranks, envs",
    [([*EPISODE, "--minibatch-size", "256"], 3, 6), (KARPATHY, 4, 4)],
    ids=["episode", "karpathy"],
)
def test_checkpoints_are_equal_on_any_number_of_ranks(tmp_path, flags, ranks, envs):
    one, other = (weights_after(tmp_path, each, 2, "--reproducible", *flags, envs=envs) for each in (1, ranks))
    assert one == other
    assert without_ranks(tmp_path, "on-1") == without_ranks(tmp_path, f"on-{ranks}")


def test_weights_depend_on_the_ranks_without_the_flag(tmp_path):
    """The games before the first update do not. The checkpoint's identity records the flag."""
    assert weights_after(tmp_path, 1, 1, *EPISODE) != weights_after(tmp_path, 3, 1, *EPISODE)
    one, three = (metrics(tmp_path, f"on-{ranks}")[0] for ranks in (1, 3))
    for name in ("env_steps", "games", "return_mean", "return_last"):
        assert one[name] == three[name] is not None
    path, _ = newest(tmp_path, "on-1")
    assert checkpoint_file.load(path)[1]["identity"]["reproducible"] is False


def test_resume_on_other_numbers_of_ranks_is_equal(tmp_path):
    """2 updates on 2 ranks, 1 on 3 and 1 on 1 equal 4 updates on 4 ranks."""
    flags = ["--reproducible", *ROLLOUTS, *EPISODE]
    for ranks, updates in ((2, 2), (3, 3), (1, 4)):
        last = weights_after(tmp_path, ranks, updates, *flags, envs=12, folder="changing")
    assert last == weights_after(tmp_path, 4, 4, *flags, envs=12)
    assert without_ranks(tmp_path, "changing") == without_ranks(tmp_path, "on-4")
