"""Every game of ale-py trains and resumes bit for bit: ``make test-games``. ``make test`` runs some of them."""

import json
import sys

import pytest
from jobs import ROOT, run

from pg_mpi.env.atari import atari_ids
from pg_mpi.mpi.launch.mpirun import mpirun_command

SOME = ["ALE/Boxing-v5", "ALE/Skiing-v5"]


def train_games(cwd, *env_ids, limit):
    """Run ``every_game.py`` and return the JSON of each game."""
    line = [*mpirun_command(2), sys.executable, str(ROOT / "tests" / "games" / "every_game.py"), *env_ids]
    result = run(line, cwd, limit, code=0)
    return [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]


def check(games):
    for game in games:
        assert game["steps"] == 1000 and game["same"], game
        assert game["active_inputs"] > 0, f"no input is active: {game}"
        assert game["reported_crowded"] == (game["active"] > 0.2), game


def test_some_games(tmp_path):
    games = train_games(tmp_path, *SOME, limit=90)
    assert [game["env_id"] for game in games] == SOME
    check(games)
    by_id = {game["env_id"]: game for game in games}
    assert by_id["ALE/Boxing-v5"]["colours"] > 1, "the two boxers have the same colour class"


@pytest.mark.games
def test_every_game(tmp_path):
    games = train_games(tmp_path, limit=1500)
    assert {game["env_id"] for game in games} == set(atari_ids()) and len(games) >= 104
    check(games)
