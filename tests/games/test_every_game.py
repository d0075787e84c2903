"""Every game that ale-py ships plays, learns, resumes bit for bit: ``make test-games``; ``make test`` tries some."""

import json
import sys

import pytest
from jobs import ROOT, run

from pg_mpi.env.atari import atari_ids
from pg_mpi.mpi.launch.mpirun import mpirun_command

SOME = ["ALE/Boxing-v5", "ALE/Breakout-v5", "ALE/Qbert-v5", "ALE/Skiing-v5", "ALE/SpaceInvaders-v5"]


def try_games(cwd, *env_ids, limit):
    """What came of each game."""
    line = [*mpirun_command(2), sys.executable, str(ROOT / "tests" / "games" / "every_game.py"), *env_ids]
    result = run(line, cwd, limit)
    assert result.returncode == 0, f"{result.stdout}\n{result.stderr}"
    return [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]


def check(games):
    for game in games:
        assert game["steps"] == 1000 and game["same"], game
        assert game["seen"] > 0, f"the policy sees nothing: {game}"
        assert game["says_crowded"] == (game["active"] > 0.2), game


def test_some_games(tmp_path):
    games = try_games(tmp_path, *SOME, limit=90)
    assert [game["env_id"] for game in games] == SOME
    check(games)
    of = {game["env_id"]: game for game in games}
    assert of["ALE/Boxing-v5"]["colours"] > 1, "a white boxer and a black one come to the same places"


@pytest.mark.games
def test_every_game(tmp_path):
    games = try_games(tmp_path, limit=1500)
    assert {game["env_id"] for game in games} == set(atari_ids()) and len(games) >= 104
    check(games)
