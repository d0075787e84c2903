"""A short run on Pong learns."""

from jobs import command, metrics, run

STEPS = 60_000


def test_pong_is_learned(tmp_path):
    """The games of the whole run, at most 100, are better and longer than those of a random policy.

    A policy without a gradient stays at -20.1 (standard error 0.1) and 950 steps a game; one with a gradient of the
    wrong sign falls to -21. Learning reaches -18.9 to -17.8 and 1,250 to 1,450 steps.
    """
    flags = ["--env-id", "ALE/Pong-v5", "--seed", 0, "--total-timesteps", STEPS]
    flags += ["--sync", "steps", "--num-steps", 128, "--envs-per-rank", 16]
    flags += ["--minibatch-size", 1024, "--update-epochs", 6, "--learning-rate", 1e-3, "--anneal-timesteps", 150_000]
    run(command(1, "pg_mpi.train", "--run-dir", "run", *flags), tmp_path, limit=600, code=0)
    last = metrics(tmp_path)[-1]
    assert last["env_steps"] >= STEPS and last["games"] >= 30
    assert last["return_mean"] > -19.3 and last["length_mean"] > 1100
