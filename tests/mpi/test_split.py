"""The defining test: the same trajectories, however they are dealt to ranks, give the same update."""

import sys
from pathlib import Path

import numpy as np
import pytest
from jobs import run

from pg_mpi.mpi.launch.mpirun import mpirun_command

SCRIPT = str(Path(__file__).with_name("split_update.py"))


def learn(tmp_path, method, shares):
    out = tmp_path / f"{shares.replace('|', '_')}.npz"
    ranks = shares.count("|") + 1
    result = run([*mpirun_command(ranks), sys.executable, SCRIPT, method, shares, str(out)], tmp_path)
    assert result.returncode == 0, result.stderr
    with np.load(out) as content:
        return content["theta"], content["stats"]


@pytest.mark.parametrize("method", ["clipped", "reinforce"])
def test_unequal_and_empty_shares_give_the_same_update(tmp_path, method):
    theta, stats = learn(tmp_path, method, "0,1,2")
    start = np.random.default_rng(0).normal(size=theta.size) * 0.1
    assert np.abs(theta - start).max() > 1e-4
    for shares in ("0|1,2", "2,1|0", "0,1,2|", "|0,1,2", "0|1|2", "1,2||0"):
        other, other_stats = learn(tmp_path, method, shares)
        np.testing.assert_allclose(other, theta, rtol=0, atol=1e-10, err_msg=shares)
        np.testing.assert_allclose(other_stats, stats, rtol=1e-9, err_msg=shares)


def test_more_minibatches_than_some_ranks_have_samples(tmp_path):
    """Ranks agree on the minibatches (asserted in the script) and none is skipped or NaN."""
    for shares in ("0,1|2|", "1|0,2|"):
        theta, stats = learn(tmp_path, "clipped:2", shares)
        assert np.isfinite(theta).all() and np.isfinite(stats).all()
