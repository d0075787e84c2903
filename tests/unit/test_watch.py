"""The screen in the terminal: shrinking, colours, and a real game on a pseudo-terminal."""

import fcntl
import os
import pty
import re
import select
import shutil
import signal
import struct
import sys
import termios
import time
from types import SimpleNamespace

import numpy as np
import pytest
from jobs import ROOT, STEPS, run, train

from pg_mpi import watch
from pg_mpi.files.run_folder import RunFolder

SMALL = np.zeros((6, 8, 3), np.uint8)


def test_small_objects_survive_shrinking():
    screen = np.full((210, 160, 3), (144, 72, 17), np.uint8)
    screen[101, 57] = 236
    small = watch.shrunk(screen, 40, 60)
    assert small.shape == (53, 40, 3)
    assert (small[25, 14] == 236).all()
    small[25, 14] = (144, 72, 17)
    assert (small == (144, 72, 17)).all()
    assert watch.shrunk(screen, 80, 44, aspect=1.75).shape == (42, 54, 3)


@pytest.mark.parametrize(
    "size, shape", [((8, 6), (6, 8, 3)), ((4, 6), (3, 4, 3)), ((3, 100), (2, 3, 3)), ((1, 1), (1, 1, 3))]
)
def test_screen_is_shrunk_by_a_whole_factor(size, shape):
    assert watch.shrunk(SMALL, *size).shape == shape


def test_characters_are_two_pixels():
    screen = np.array([[[0, 0, 0], [255, 0, 0], [255, 0, 0]], [[255, 255, 255], [0, 0, 51], [0, 0, 51]]], np.uint8)
    assert watch.halves(screen) == "\x1b[38;5;16;48;5;231m▀\x1b[38;5;196;48;5;17m▀▀\x1b[0m\x1b[K\n"
    assert watch.halves(screen[:1]).startswith("\x1b[38;5;16;48;5;16m▀"), "the lower half repeats the last row"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    train(1, folder, *STEPS, "--total-timesteps", 1, "--max-frames", 400)
    return folder


def terminal(folder, *args, end=None, when=(None, None), size=(30, 60)):
    """Run watch on a pseudo-terminal: (exit code, text).

    ``end``: a signal for it after its first second of play. ``when``: (text, what to call when it has said that).
    """
    words, then = when
    process, master = pty.fork()
    if not process:
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
        os.chdir(folder)
        os.environ |= {"PYTHONPATH": str(ROOT), "LINES": str(size[0]), "COLUMNS": str(size[1])}
        os.execv(sys.executable, [sys.executable, "-m", "pg_mpi.watch", *args])
    output, deadline = b"", time.monotonic() + 60
    while (left := deadline - time.monotonic()) > 0:
        if not select.select([master], [], [], left)[0]:
            os.kill(process, signal.SIGKILL)
        try:
            output += os.read(master, 1 << 16)
        except OSError:  # the other side is closed
            break
        if words and words.encode() in output:
            then()
            words = None
        if end and output.count(b"score") > 5:
            os.kill(process, end)
            end = None
    os.close(master)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), output.decode()


def test_waits_for_the_first_checkpoint_of_a_running_run(trained, tmp_path):
    shutil.copytree(trained / "run", tmp_path / "run")
    (tmp_path / "run" / "checkpoints").rename(tmp_path / "later")
    folder = RunFolder(str(tmp_path / "run"))
    folder.open()
    saved = "run has no checkpoint yet: waiting", lambda: (tmp_path / "later").rename(tmp_path / "run/checkpoints")
    code, text = terminal(tmp_path, "run", "--games", "1", "--speed", "1000", when=saved)
    folder.unlock()
    assert code == 0 and text.count(watch.HOME) > 50
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    code, text = terminal(tmp_path, "run")
    assert code == 2 and "run holds no checkpoint" in text, "no process writes this run"
    code, text = terminal(tmp_path, "run/config.json/x")
    assert code == 2 and "run/config.json/x holds no checkpoint" in text


def test_a_game_is_drawn_with_its_score(trained):
    code, text = terminal(trained, "run", "--games", "1", "--speed", "1000")
    assert code == 0, text
    frames = text.split(watch.HOME)
    assert len(frames) > 50
    assert text.startswith(watch.HIDE) and text.rstrip().endswith(f"{watch.SHOW}\x1b[30H")
    last = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", frames[-1]).split("\r\n")
    assert [len(line) for line in last[:21]] == [54] * 21, "each fifth of 210, two to a character; each third of 160"
    assert last[21].startswith("ALE/Pong-v5 after") and "score" in last[21]


def test_interrupt_restores_the_terminal(trained):
    code, text = terminal(trained, "run", end=signal.SIGINT)
    assert code == 0 and text.rstrip().endswith(f"{watch.SHOW}\x1b[30H")
    assert "Traceback" not in text


def test_each_game_is_played_with_the_newest_checkpoint(monkeypatch, capsys):
    newest, played = iter("ab"), []
    monkeypatch.setattr(watch, "wait_for_checkpoint", lambda run: None)
    monkeypatch.setattr(watch, "find", lambda run, own: next(newest))
    monkeypatch.setattr(watch, "Screen", lambda saved, speed: SimpleNamespace(draw=saved))
    policy = SimpleNamespace(play=lambda game, seed, draw: played.append((game, draw)))
    monkeypatch.setattr(watch, "TrainedPolicy", lambda saved, greedy: policy)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    before = signal.getsignal(signal.SIGINT)
    try:
        assert watch.main(["run", "--games", "2"]) == 0
    finally:
        signal.signal(signal.SIGINT, before)
    assert played == [(0, "a"), (1, "b")]


def test_watch_needs_a_terminal(trained):
    result = run([sys.executable, "-m", "pg_mpi.watch", "run"], trained)
    assert result.returncode == 2
    assert (
        result.stderr
        == "pg_mpi: error: watch draws in a terminal: run it in one, or use pg_mpi.evaluate --video FILE\n"
    )
