"""``scaling.score.games``: results of other settings, unknown run folders and signals."""

import json
import signal
import sys
import time

import pytest
from jobs import SMALL, finish, refusal, run, start, wait_for_updates

from pg_mpi.config.command_line import parse_train
from scaling.score import games

FLAGS = ["--games", "ALE/Pong-v5", "--seeds", "0", "--ranks", "1", "--out", "out"]


WORDS = ["--env-id", "ALE/Pong-v5", "--preset", "default", "--seed", "0", "--max-walltime", "600.0"]
RESULT = {
    "env_id": "ALE/Pong-v5",
    "ranks": 1,
    "played": 30,
    "flags": WORDS,
    "settings": parse_train(WORDS)[0].identity(),
    "wall_s": 1.0,
    "env_steps": 1,
    "return_mean": 0.0,
    "trained": {"mean": 0.0},
    "random": {"mean": -20.0},
}


@pytest.mark.parametrize(
    "content, args, message",
    [
        (RESULT, ["--preset", "karpathy"], "Pong-v5-s0.json has other settings (flags, settings): give another --out"),
        (RESULT | {"settings": {}}, [], "Pong-v5-s0.json has other settings (settings): give another --out"),
        (RESULT | {"ranks": 2}, [], "Pong-v5-s0.json has other settings (ranks): give another --out"),
        (RESULT, ["--played", "3"], "Pong-v5-s0.json has other settings (played)"),
        (RESULT, ["--", "--hidden", "7"], "Pong-v5-s0.json has other settings (flags, settings)"),
        ({"rows": []}, [], "Pong-v5-s0.json has other settings (ranks, played, flags, settings)"),
    ],
)
def test_results_of_other_settings_or_tools_are_refused(tmp_path, monkeypatch, content, args, message):
    path = tmp_path / "out/Pong-v5-s0.json"
    path.parent.mkdir()
    path.write_text(json.dumps(content))
    monkeypatch.chdir(tmp_path)
    assert message in refusal(games.main, *FLAGS, *args) and json.loads(path.read_text()) == content


def test_result_of_the_same_settings_is_not_measured_again(tmp_path, monkeypatch, capsys):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/Pong-v5-s0.json").write_text(json.dumps(RESULT))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(games.timed_run, "trained", None)
    assert games.main(FLAGS) == 0 and "Pong-v5, 1 seeds" in capsys.readouterr().out


def test_run_without_its_result_is_kept(tmp_path, monkeypatch):
    marker = tmp_path / "out/Pong-v5-s0/DONE"
    marker.parent.mkdir(parents=True)
    marker.touch()
    monkeypatch.chdir(tmp_path)
    assert "out/Pong-v5-s0 exists without its result" in refusal(games.main, *FLAGS) and marker.exists()


def test_wrong_flags_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "no preset or file 'nosuch'" in refusal(games.main, *FLAGS, "--preset", "nosuch")
    assert "--run-dir does not apply here" in refusal(games.main, *FLAGS, "--", "--run-dir", "x")
    (tmp_path / "preset.json").write_text('{"target_return": 5}')
    assert "--target-return does not apply here" in refusal(games.main, *FLAGS, "--preset", "preset.json")
    assert [path.name for path in tmp_path.iterdir()] == ["preset.json"]


def test_hang_up_that_nohup_ignores_does_not_end_a_command(tmp_path):
    code = "import os, signal, sys; from scaling import cli; cli.run(lambda argv: os.kill(os.getpid(), signal.SIGHUP))"
    for line, exit_code in ((["nohup", sys.executable, "-c", code], 0), ([sys.executable, "-c", code], 129)):
        run(line, tmp_path, code=exit_code)


def test_signal_ends_the_ranks_and_the_next_start_repeats_the_run(tmp_path):
    flags = [*FLAGS, "--played", "1", "--limit", "00:05:00", "--", *SMALL, "--max-frames", "400"]
    line = [sys.executable, "-m", "scaling.score.games", *flags]
    job = start(line, tmp_path)
    wait_for_updates(job, tmp_path, run=".measured-*/run")
    job.send_signal(signal.SIGTERM)
    stopped = finish(job, 30)
    assert stopped.returncode == 75, stopped.stderr
    time.sleep(1)
    assert not list(tmp_path.glob(".measured-*")), "the ranks write on"
    assert not list(tmp_path.glob("out/*"))
    repeated = run([*line, "--total-timesteps", "500"], tmp_path, code=0)
    starts = json.loads((tmp_path / "out/Pong-v5-s0/config.json").read_text())["starts"]
    assert len(starts) == 1, "the interrupted run was resumed, not repeated"
    assert (tmp_path / "out/Pong-v5-s0.json").exists()
    assert "| Pong-v5, 1 seeds |" in repeated.stdout
