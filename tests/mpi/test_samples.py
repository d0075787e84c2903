"""Every epoch of an update uses each sample of all ranks exactly once."""

import numpy as np
import pytest
from jobs import command, run

UPDATES, EPOCHS, SIZE = 2, 4, 9


@pytest.mark.parametrize("lengths", ["20,3,0,31", "20,3|0,31", "24,1|0,0|9,20"])
def test_each_sample_is_used_once_per_epoch(tmp_path, lengths):
    """54 samples in minibatches of about 9.

    The policy's gradient counts how often each sample is used. The mean gradient of a minibatch of n different samples
    therefore is 1/n for these and 0 for all others.
    """
    ranks, envs = lengths.count("|") + 1, lengths.count(",") + lengths.count("|") + 1
    out = tmp_path / "gradients.npz"
    settings = ["--update-epochs", EPOCHS, "--minibatch-size", SIZE, "--max-grad-norm", 1e9]
    run(command(ranks, "count_samples", lengths, out, *settings), tmp_path, code=0)
    with np.load(out) as content:
        assert_used_once(content["plain"], most=ranks)
        assert_used_once(content["reproducible"], most=envs)


def assert_used_once(gradients, most):
    """Assert that each epoch has each sample once. ``most``: by which a minibatch's size may differ from ``SIZE``."""
    samples, sizes = gradients.shape[1], np.count_nonzero(gradients, axis=1)
    np.testing.assert_allclose(gradients, (gradients > 0) / sizes[:, None], rtol=1e-6)
    used = (gradients > 0).reshape(UPDATES * EPOCHS, -1, samples)
    assert used.shape[1] == samples // SIZE
    np.testing.assert_array_equal(used.sum(axis=1), 1)
    assert np.abs(sizes - SIZE).max() <= most, "minibatch sizes differ too much"
    assert len({epoch.tobytes() for epoch in used}) == len(used), "two epochs have the same minibatches"
