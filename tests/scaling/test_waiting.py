"""``scaling.measure.waiting``: real runs of both modes are compared."""

import json
import sys

import pytest
from jobs import refusal, run

from scaling.measure.waiting import compare, longest_to_mean, main


def waiting(cwd, *args):
    return run([sys.executable, "-m", "scaling.measure.waiting", *map(str, args)], cwd)


def test_both_modes_are_measured_and_compared(tmp_path):
    small = ["--hidden", 16, "--minibatch-size", 128, "--num-steps", 64, "--max-frames", 1200]
    budget = ["--seconds", 80, "--total-timesteps", 1]  # one update each, on a slow machine too
    result = waiting(tmp_path, "--ranks", 2, "--envs", 3, "--json", "--out", ".", *small, *budget)
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout.splitlines()[-1])
    assert found == json.loads((tmp_path / "waiting.json").read_text())
    assert {path.name for path in tmp_path.iterdir()} == {"waiting.json", "waiting.csv", "waiting.png"}
    assert found.keys() >= {"command", "commit", "cpu", "cores", "versions"}
    episode, steps = found["runs"]
    assert (episode["mode"], steps["mode"], steps["env_steps"]) == ("episode", "steps", 2 * 3 * 64)
    assert episode["env_steps"] == 2 * 300 and episode["longest_to_mean"] == 1  # the frame cap ends both games
    assert steps["longest_to_mean"] is None
    for each in found["runs"]:
        assert each["ranks"] == 2 and each["updates"] == 1
        assert each["oversubscribed"] == (found["cores"] < 2)
        assert 0 <= each["wait_share"] <= each["wait_share_max"] <= 1
    assert found["hybrid"] == [compare(episode, steps)]
    assert found["hybrid"][0]["speedup"] == steps["sps"] / episode["sps"]


def test_failed_points_are_reported(tmp_path):
    result = waiting(tmp_path, "--ranks", 1, "--seconds", 0.1, "--hidden", 16)
    errors = [line for line in result.stderr.splitlines() if line.startswith("pg_mpi: error: ")]
    assert result.returncode == 1 and [line.split(":")[2] for line in errors] == [
        " episode on 1 ranks",
        " steps on 1 ranks",
    ]
    assert not list(tmp_path.iterdir())


def test_longest_to_mean_by_hand():
    games = [(0, 999), (0, 100), (0, 300), (-21, 50), (3, 50)]
    assert longest_to_mean(games, ranks=2) == (1.5 + 1) / 2
    assert longest_to_mean(games[1:], ranks=2, share=2) == 400 / 250
    assert longest_to_mean(games, ranks=8) is None


@pytest.mark.parametrize(
    "args, message",
    [
        (["--ranks", "1,x"], "--ranks must be whole numbers from 1 to 1,000,000, such as 1,2,4, not '1,x'"),
        (["--sync", "steps"], "--sync does not apply here"),
        (["--preset", "karpathy"], "use --sync episode"),
        (["--env", "3"], "unknown argument --env (did you mean --envs?)"),
    ],
)
def test_bad_input_is_refused_with_one_line(tmp_path, monkeypatch, args, message):
    monkeypatch.chdir(tmp_path)
    assert message in refusal(main, *args) and not list(tmp_path.iterdir())
