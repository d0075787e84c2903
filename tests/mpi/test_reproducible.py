"""``--reproducible``: the same checkpoint on any number of ranks."""

from jobs import CARTPOLE, command, deterministic, metrics, newest, run, small

from pg_mpi.files import checkpoint_file

EPISODE = ["--max-frames", "400"]  # 100 steps


def weights_after(cwd, ranks, updates, *flags, envs=4, folder=None):
    """Train ``updates`` updates of ``envs`` envs on ``ranks`` ranks and return the bytes of the newest checkpoint."""
    folder = folder or f"on-{ranks}"
    steps = 100 * envs * updates
    more = ["--envs-per-rank", envs // ranks, "--seed", 5, "--run-dir", folder, "--total-timesteps", steps]
    run(command(ranks, "pg_mpi.train", *small(flags), *flags, *more), cwd, code=0)
    return newest(cwd, folder)[1]


def without_ranks(cwd, folder):
    """The metrics that do not depend on the number of ranks."""
    return [{**line, "ranks": None} for line in deterministic(cwd, folder)]


def test_checkpoints_are_equal_on_any_number_of_ranks(tmp_path):
    one, four = (
        weights_after(tmp_path, ranks, 2, "--reproducible", "--preset", "karpathy", *EPISODE) for ranks in (1, 4)
    )
    assert one == four
    assert without_ranks(tmp_path, "on-1") == without_ranks(tmp_path, "on-4")


def test_weights_depend_on_the_ranks_without_the_flag(tmp_path):
    """The games before the first update do not. The checkpoint's identity records the flag."""
    one, three = (weights_after(tmp_path, ranks, 1, *CARTPOLE, "--num-steps", 100, envs=3) for ranks in (1, 3))
    assert one != three
    one, three = (metrics(tmp_path, f"on-{ranks}")[0] for ranks in (1, 3))
    for name in ("env_steps", "games", "return_mean", "return_last"):
        assert one[name] == three[name] is not None
    path, _ = newest(tmp_path, "on-1")
    assert checkpoint_file.load(path)[1]["identity"]["reproducible"] is False


def test_resume_on_other_numbers_of_ranks_is_equal(tmp_path):
    """An update on 2 ranks and one on 4, which divide the optimizer's steps, equal two updates on 1 rank."""
    flags = ["--reproducible", *EPISODE, "--minibatch-size", "256"]
    for ranks, updates in ((2, 1), (4, 2)):
        last = weights_after(tmp_path, ranks, updates, *flags, folder="changing")
    assert last == weights_after(tmp_path, 1, 2, *flags)
    assert without_ranks(tmp_path, "changing") == without_ranks(tmp_path, "on-1")
