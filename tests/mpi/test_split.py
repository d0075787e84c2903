"""An update does not depend on how its trajectories are distributed over ranks."""

import json

import numpy as np
import pytest
from jobs import command, run

METHODS = ("clipped", "reinforce")
ONE_RANK, UNEQUAL = "0,1,2", ("0|1,2", "|0,1,2", "0|1|2", "1,2||0")
MINIBATCHES = ("0,1|2|", "1|0,2|")  # more than some ranks have samples
DIVIDED = [("clipped:20", "0|1|2", 3), ("clipped:20", "1|0|2|", 2), ("reinforce", "0|1,2", 2)]

CASES = [(method, distribution, 1) for method in METHODS for distribution in (ONE_RANK, *UNEQUAL)]
CASES += [("clipped:2", distribution, 1) for distribution in MINIBATCHES]
CASES += [("clipped:20", "0|1|2", 1), ("clipped:20", "1|0|2|", 1), *DIVIDED]


def run_script(ranks, name, cases, cwd):
    """Run a script of this folder on a list of cases; returns the lines that it prints."""
    return run(command(ranks, name, json.dumps(cases)), cwd, code=0).stdout.splitlines()


@pytest.fixture(scope="module")
def updates(tmp_path_factory):
    """Two updates of each case, by (method, distribution, group): the weights, the optimizer's state, the metrics."""
    cwd, found = tmp_path_factory.mktemp("updates"), {}
    for ranks in (1, 2, 3, 4):
        cases = [case for case in CASES if case[1].count("|") + 1 == ranks]
        run_script(ranks, "split_update", cases, cwd)
        for number, case in enumerate(cases):
            with np.load(cwd / f"{ranks}-{number}.npz") as content:
                found[case] = content["theta"], content["state"], content["stats"]
    return found


@pytest.mark.parametrize("method", METHODS)
def test_unequal_and_empty_ranks_give_the_same_update(updates, method):
    theta, _, stats = updates[method, ONE_RANK, 1]
    start = np.random.default_rng(0).normal(size=theta.size) * 0.1
    assert np.abs(theta - start).max() > 1e-4
    for distribution in UNEQUAL:
        other, _, other_stats = updates[method, distribution, 1]
        np.testing.assert_allclose(other, theta, rtol=0, atol=1e-10, err_msg=distribution)
        np.testing.assert_allclose(other_stats, stats, rtol=1e-9, err_msg=distribution)


def test_more_minibatches_than_some_ranks_have_samples(updates):
    """The ranks hold equal weights (asserted in the script), and no weight or statistic is NaN."""
    for distribution in MINIBATCHES:
        theta, _, stats = updates["clipped:2", distribution, 1]
        assert np.isfinite(theta).all() and np.isfinite(stats).all()


@pytest.mark.parametrize("method, distribution, group", DIVIDED)
def test_divided_optimizer_steps_are_the_whole_one(updates, method, distribution, group):
    """Whole and divided, the weights and the optimizer's state of all ranks are equal (asserted in the script)."""
    whole, divided = updates[method, distribution, 1], updates[method, distribution, group]
    assert np.abs(divided[1]).max() > 0
    for one, other in zip(whole, divided):
        np.testing.assert_allclose(other, one, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "ranks, cases, said",
    [
        (2, [(2, 50_000, "none"), (2, 50_000, "rounded")], [", 3.0)] 3", ", 3.0)] 3"]),
        (3, [(3, 50_000, "overflow")], ["a sum exceeds 3e+05"]),
        (
            4,
            [(2, 50_000, "none"), (4, 100, "none"), (2, 100, "none"), (2, 50_000, "nan")],
            [", 10.0)] 3", ", 10.0)] 3", ", 10.0)] 3", "(nan, 10.0)"],
        ),
    ],
)
def test_divided_steps_have_the_bits_of_whole_ones(tmp_path, ranks, cases, said):
    """Exact sums, and any sum of two: 13 blocks, and one, of which most ranks have none. All skip or refuse alike."""
    for case, expected, line in zip(cases, said, run_script(ranks, "divided_step", cases, tmp_path), strict=True):
        assert expected in line
        assert "nan" not in case or line.endswith(" 2"), "a step along NaN"


@pytest.mark.parametrize("fault", ["full", "crowded"])
def test_full_shared_memory_means_whole_steps_on_all_ranks(tmp_path, fault):
    result = run(command(4, "divided_step", json.dumps([(2, 100, fault)])), tmp_path, code=0)
    assert result.stdout == "left: []\n"
    assert result.stderr.count("no shared memory for the optimizer's steps ([Errno 28] No space left on device)") == 1
