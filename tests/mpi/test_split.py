"""An update does not depend on how its trajectories are distributed over ranks."""

import sys
from pathlib import Path

import numpy as np
import pytest
from jobs import run

from pg_mpi.mpi.launch.mpirun import mpirun_command

SCRIPT = str(Path(__file__).with_name("split_update.py"))
STEPS = str(Path(__file__).with_name("divided_step.py"))


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


@pytest.mark.parametrize(
    "method, distribution, group", [("clipped:20", "0|1|2", 3), ("clipped:20", "1|0|2|", 2), ("reinforce", "0|1,2", 2)]
)
def test_divided_optimizer_steps_are_the_whole_one(tmp_path, method, distribution, group):
    """Whole and divided, the weights and the optimizer's state of all ranks are equal (asserted in the script)."""
    whole, divided = (run_update(tmp_path, method, distribution, ranks) for ranks in (1, group))
    assert np.abs(divided[1]).max() > 0
    for one, other in zip(whole, divided):
        np.testing.assert_allclose(other, one, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "ranks, group, size, fault, said",
    [
        (2, 2, 50_000, "none", ", 3.0)] 3"),
        (4, 2, 50_000, "none", ", 10.0)] 3"),
        (4, 4, 100, "none", ", 10.0)] 3"),
        (4, 2, 50_000, "nan", "(nan, 10.0)"),
        (3, 3, 50_000, "overflow", "a sum exceeds 3e+05"),
    ],
)
def test_divided_steps_have_the_bits_of_whole_ones(tmp_path, ranks, group, size, fault, said):
    """Exact sums of float32: 13 blocks, and one, of which most ranks have none. All ranks skip or refuse alike."""
    result = run([*mpirun_command(ranks), sys.executable, STEPS, str(group), str(size), fault], tmp_path)
    assert result.returncode == 0, result.stderr
    assert said in result.stdout
    assert fault != "nan" or result.stdout.endswith(" 2\n"), "a step along NaN"
