"""An update does not depend on how its trajectories are distributed over ranks."""

import sys
from pathlib import Path

import numpy as np
import pytest
from jobs import run

from pg_mpi.mpi.launch.mpirun import mpirun_command

SCRIPT = str(Path(__file__).with_name("split_update.py"))


def run_update(tmp_path, method, distribution, group=1):
    """Two updates: the weights, the optimizer's state, and the metrics of each."""
    out = tmp_path / f"{distribution.replace('|', '_')}-{group}.npz"
    ranks = distribution.count("|") + 1
    line = [*mpirun_command(ranks), sys.executable, SCRIPT, method, distribution, str(out), str(group)]
    result = run(line, tmp_path)
    assert result.returncode == 0, result.stderr
    with np.load(out) as content:
        return content["theta"], content["state"], content["stats"]


@pytest.mark.parametrize("method", ["clipped", "reinforce"])
def test_unequal_and_empty_ranks_give_the_same_update(tmp_path, method):
    theta, _, stats = run_update(tmp_path, method, "0,1,2")
    start = np.random.default_rng(0).normal(size=theta.size) * 0.1
    assert np.abs(theta - start).max() > 1e-4
    for distribution in ("0|1,2", "|0,1,2", "0|1|2", "1,2||0"):
        other, _, other_stats = run_update(tmp_path, method, distribution)
        np.testing.assert_allclose(other, theta, rtol=0, atol=1e-10, err_msg=distribution)
        np.testing.assert_allclose(other_stats, stats, rtol=1e-9, err_msg=distribution)


def test_more_minibatches_than_some_ranks_have_samples(tmp_path):
    """The ranks hold equal weights (asserted in the script), and no weight or statistic is NaN."""
    for distribution in ("0,1|2|", "1|0,2|"):
        theta, _, stats = run_update(tmp_path, "clipped:2", distribution)
        assert np.isfinite(theta).all() and np.isfinite(stats).all()


@pytest.mark.parametrize("method", ["clipped:20", "reinforce"])
@pytest.mark.parametrize("distribution, group", [("0|1,2", 2), ("0|1|2", 3), ("1|0|2|", 2), ("1|0|2|", 4)])
def test_divided_optimizer_steps_are_the_whole_one(tmp_path, method, distribution, group):
    """Whole and divided, the weights and the optimizer's state of all ranks are equal (asserted in the script)."""
    whole, divided = (run_update(tmp_path, method, distribution, ranks) for ranks in (1, group))
    assert np.abs(divided[1]).max() > 0
    for one, other in zip(whole, divided):
        np.testing.assert_allclose(other, one, rtol=1e-9, atol=1e-12)
