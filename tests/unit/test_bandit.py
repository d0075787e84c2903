"""The bandit testbed follows a plain Python loop and reproduces figures of Sutton & Barto."""

import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from jobs import command, one_line, read_csv, refusal, run
from oracle import bandit_loop

from pg_mpi.bandit import plan, testbed
from pg_mpi.bandit.__main__ import Result, _prepare
from pg_mpi.bandit.methods import best

ORACLES = {
    "epsilon:0.1": lambda arms: bandit_loop.Epsilon(arms, 0.1),
    "epsilon:0": lambda arms: bandit_loop.Epsilon(arms, 0.0),
    "epsilon:0.2,step=0.1,start=1.5": lambda arms: bandit_loop.Epsilon(arms, 0.2, step=0.1, start=1.5),
    "optimistic:5": lambda arms: bandit_loop.Epsilon(arms, 0.0, step=0.1, start=5),
    "ucb:2": lambda arms: bandit_loop.Ucb(arms, 2.0),
    "ucb:0.5,step=0.2": lambda arms: bandit_loop.Ucb(arms, 0.5, step=0.2),
    "gradient:0.1": lambda arms: bandit_loop.GradientBandit(arms, 0.1),
    "gradient:0.4,baseline=false": lambda arms: bandit_loop.GradientBandit(arms, 0.4, baseline=False),
}
TASKS = {
    "stationary": {"arms": 10, "steps": 260, "mean": 0.0, "drift": 0.0},
    "mean of 4": {"arms": 4, "steps": 120, "mean": 4.0, "drift": 0.0},
    "drifting": {"arms": 10, "steps": 260, "mean": 0.0, "drift": 0.1},
    "many arms": {"arms": 300, "steps": 30, "mean": 0.0, "drift": 0.0},
}


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("method", ORACLES)
def test_methods_follow_the_oracle(method, task):
    runs = range(7, 13)
    sums = testbed.Sums(TASKS[task]["steps"])
    chunks = []
    sums.add = lambda first, rewards, optimal: chunks.append((rewards, optimal))
    testbed._play_chunk(SimpleNamespace(seed=5, **TASKS[task]), [plan.parse(method)], runs, [sums])
    rewards, optimal = (np.concatenate(part) for part in zip(*chunks))
    for column, number in enumerate(runs):
        expected, chosen = bandit_loop.play(ORACLES[method], 5, number, **TASKS[task])
        np.testing.assert_allclose(rewards[:, column], expected, rtol=0, atol=2**-20)
        assert optimal[:, column].tolist() == chosen


def test_best_breaks_ties_uniformly():
    scores = np.tile(np.array([[1.0], [3.0], [3.0], [2.0], [3.0]]), 30_000)
    arms = best(scores, np.random.default_rng(0).random(30_000))
    assert np.bincount(arms, minlength=5)[[0, 3]].tolist() == [0, 0]
    np.testing.assert_allclose(np.bincount(arms)[[1, 2, 4]], 10_000, atol=400)  # five standard deviations
    assert best(np.array([[2.0], [2.0]]), np.array([np.nextafter(1, 0)])).tolist() == [1]
    assert best(np.zeros((400, 1)), np.array([0.999])).tolist() == [399]


def test_sums_add_over_runs_and_match_the_oracle():
    task = SimpleNamespace(seed=1, **TASKS["stationary"])
    methods = [plan.parse(method) for method in ORACLES]
    whole = testbed.play(task, methods, range(41))
    parts = [testbed.play(task, methods, part) for part in (range(0, 1), range(1, 30), range(30, 41))]
    for one, *others in zip(whole, *parts):
        np.testing.assert_array_equal(one.values, sum(other.values for other in others))
    rewards, optimal = map(
        np.array, zip(*(bandit_loop.play(ORACLES["ucb:2"], 1, r, **TASKS["stationary"]) for r in range(41)))
    )
    (reward, half), (best_arm, _), (mean, spread) = whole[list(ORACLES).index("ucb:2")].means(41)
    np.testing.assert_allclose(reward, rewards.mean(axis=0), atol=1e-5)
    np.testing.assert_allclose(half, 1.96 * rewards.std(axis=0, ddof=1) / 41**0.5, rtol=1e-4)
    np.testing.assert_allclose(best_arm, optimal.mean(axis=0), atol=1e-12)
    assert mean == pytest.approx(rewards.mean(), abs=1e-5)
    assert spread == pytest.approx(1.96 * rewards.mean(axis=1).std(ddof=1) / 41**0.5, rel=1e-4)


def test_reproduces_figures_of_sutton_and_barto(tmp_path):
    """Figures 2.2 to 2.5 of Sutton & Barto, 2nd ed.

    Greedy earns about 1 and finds the best arm in a third of the runs. Epsilon 0.1 chooses it in 80 % of the steps by
    step 1,000. With a mean of 4 the gradient bandit needs its baseline.
    """
    result = run(command(2, "pg_mpi.bandit", "--json", "--out", "b"), tmp_path)
    found = {m["method"]: m for m in json.loads(result.stdout.splitlines()[-1])["methods"]}
    assert found["epsilon:0"]["reward_end"] == pytest.approx(1.0, abs=0.06)
    assert found["epsilon:0"]["optimal_end"] == pytest.approx(0.35, abs=0.04)
    assert found["epsilon:0.1"]["optimal_end"] == pytest.approx(0.8, abs=0.03)
    assert (
        found["epsilon:0.01"]["optimal_end"]
        < found["epsilon:0.1"]["optimal_end"]
        < found["optimistic:5"]["optimal_end"]
    )
    assert found["ucb:2"]["reward"] > found["epsilon:0.1"]["reward"]
    assert {path.name for path in (tmp_path / "b").iterdir()} >= {"curves.csv", "means.csv"}
    rows, facts = read_csv(tmp_path / "b/means.csv", "bandit-study", 1)
    assert {row["method"]: row["reward"] for row in rows} == {name: each["reward"] for name, each in found.items()}
    assert facts["command"] == "python -m pg_mpi.bandit --json --out b" and facts["ranks"] == "2"
    methods = ["gradient:0.1", "gradient:0.4,baseline=false"]
    result_of_mean_4 = run(command(1, "pg_mpi.bandit", "--json", "--mean", 4, "--methods", *methods), tmp_path)
    found = {m["method"]: m for m in json.loads(result_of_mean_4.stdout.splitlines()[-1])["methods"]}
    assert found["gradient:0.1"]["optimal_end"] > 0.8 > 0.5 > found["gradient:0.4,baseline=false"]["optimal_end"]


def test_results_do_not_depend_on_the_number_of_ranks(tmp_path):
    flags = ["--runs", 37, "--steps", 260, "--drift", 0.05, "--json"]
    found = []
    for ranks in (1, 3):
        result = run(command(ranks, "pg_mpi.bandit", *flags), tmp_path, code=0)
        found.append(json.loads(result.stdout.splitlines()[-1])["methods"])
    assert found[0] == found[1] and not list(tmp_path.iterdir())


def test_study_writes_all_parameter_values_and_a_figure(tmp_path):
    args = [sys.executable, "-m", "pg_mpi.bandit", "--study", "--runs", "60", "--steps", "200", "--out", "study"]
    run(args, tmp_path, code=0)
    rows, _ = read_csv(tmp_path / "study/means.csv", "bandit-study", 1)
    values = {kind: [row["value"] for row in rows if row["kind"] == kind] for kind in plan.KINDS}
    assert values == {
        "epsilon": [1 / 128, 1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4],
        "optimistic": [1 / 4, 1 / 2, 1, 2, 4],
        "ucb": [1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2, 4],
        "gradient": [1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2, 4],
    }
    assert (tmp_path / "study/study.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    "args, message",
    [
        (
            ["--methods", "epsilom:0.1"],
            "one of epsilon, optimistic, ucb, gradient (did you mean epsilon?)",
        ),
        (["--methods", "ucb"], "--methods must be ucb:VALUE, as ucb:4, not 'ucb'"),
        (["--methods", "ucb:0"], "with a finite number above 0"),
        (["--methods", "gradient:1,step=2"], "gradient:VALUE, then any of baseline=VALUE"),
        (["--methods", "epsilon:0.1,step=0"], "step=VALUE with a finite number above 0 and at most 1"),
        (["--mean", "1e200"], "squares would be too large"),
        (["--arms", "1"], "--arms must be a whole number of at least 2"),
        (["--study", "--methods", "ucb:1"], "--study has methods of its own"),
        (["--out", "/proc/none"], "--out /proc/none cannot be written"),
    ],
)
def test_bad_input_is_refused_with_one_line(args, message):
    assert message in refusal(_prepare, *args)


def test_unknown_flag_ends_the_command_with_one_line(tmp_path):
    refused = run([sys.executable, "-m", "pg_mpi.bandit", "--runz", "3"], tmp_path)
    assert refused.returncode == 2 and one_line(refused).startswith("unknown argument --runz (did you mean --runs?)")


def test_summary_is_of_the_last_hundred_steps():
    reward, optimal = np.arange(250.0), np.linspace(0, 1, 250)
    found = Result(plan.parse("epsilon:0.1"), (reward, reward), (optimal, optimal / 10), (1.5, 0.1)).summary()
    assert found["reward_end"] == 199.5 and found["optimal_end"] == pytest.approx(optimal[-100:].mean())
