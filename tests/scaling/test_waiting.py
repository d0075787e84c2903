"""The lockstep comparison: real runs of both modes, and the numbers made of them."""

import json
import sys

import pytest
from jobs import one_line, run

from scaling.measure.waiting import compare, longest_to_mean


def waiting(cwd, *args):
    return run([sys.executable, "-m", "scaling.measure.waiting", *map(str, args)], cwd)


def test_both_modes(tmp_path):
    small = ["--hidden", 16, "--minibatch-size", 128, "--num-steps", 64, "--max-frames", 1200]
    budget = ["--seconds", 80, "--total-timesteps", 1]  # one update each, however slow the machine is
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


def test_a_point_that_fails_is_told(tmp_path):
    result = waiting(tmp_path, "--ranks", 1, "--seconds", 0.1, "--hidden", 16)
    said = [line for line in result.stderr.splitlines() if line.startswith("pg_mpi: error: ")]
    assert result.returncode == 1 and [line.split(":")[2] for line in said] == [
        " episode on 1 ranks",
        " steps on 1 ranks",
    ]
    assert not list(tmp_path.iterdir())


def test_the_longest_game():
    games = [(0, 999), (0, 100), (0, 300), (-21, 50), (3, 50)]
    assert longest_to_mean(games, ranks=2) == (1.5 + 1) / 2
    assert longest_to_mean(games[1:], ranks=2, share=2) == 400 / 250
    assert longest_to_mean(games, ranks=8) is None


@pytest.mark.parametrize(
    "words, said",
    [
        (["--ranks", "1,x"], "--ranks must be whole numbers from 1 to 1,000,000, such as 1,2,4, not '1,x'"),
        (["--sync", "steps"], "--sync does not apply here"),
        (["--preset", "karpathy"], "use --sync episode"),
        (["--env", "3"], "unknown argument --env (did you mean --envs?)"),
    ],
)
def test_bad_input_is_one_line(tmp_path, words, said):
    result = waiting(tmp_path, *words)
    assert result.returncode == 2 and said in one_line(result)
    assert not list(tmp_path.iterdir()) and not result.stdout
