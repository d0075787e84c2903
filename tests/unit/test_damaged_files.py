"""Damaged metrics and settings: what is left of them stays, and a copy of what was there is kept."""

import errno
import json
import os
import time
from pathlib import Path

import pytest
from os_errors import failing

from pg_mpi.config.errors import RunError, SystemFault
from pg_mpi.config.settings import TrainConfig
from pg_mpi.files import checkpoint_folder
from pg_mpi.files.metrics_file import MetricsLog
from pg_mpi.files.run_folder import RunFolder
from pg_mpi.run import evaluations
from pg_mpi.run.counters import Counters
from pg_mpi.run.run_log import RunLog


def line(update, **more):
    return json.dumps({"update": update, "wall_s": float(update), **more}) + "\n"


DAMAGED = [b"5\n", b"{}\n", b"\0\0\0\n", b"[" * 100_000 + b"\n", b'{"update": "2"}\n', b'{"update": 2\n', b"\xff\n"]
DAMAGED += [b'{"update": 2, "wall_s": true}\n', b'{"update": 2, "wall_s": 1%s}\n' % (b"0" * 400)]


@pytest.mark.parametrize("damaged", DAMAGED, ids=range(len(DAMAGED)))
def test_lines_after_a_damaged_one_stay(tmp_path, capfd, damaged):
    path = tmp_path / "metrics.jsonl"
    content = line(1).encode() + damaged + line(3).encode() + line(4).encode()
    path.write_bytes(content)
    log = MetricsLog(str(path), 3)
    assert path.read_text() == line(1) + line(3) and (log.last, log.seconds_before) == (3, 4.0)
    assert (tmp_path / "metrics.jsonl.damaged").read_bytes() == content
    assert capfd.readouterr().err == (
        f"pg_mpi: warning: {path} is damaged: 1 damaged line left out; a copy is {path}.damaged\n"
    )
    path.write_bytes(damaged)
    MetricsLog(str(path), 3)
    assert (tmp_path / "metrics.jsonl.damaged.1").read_bytes() == damaged, "an earlier copy is kept"


def test_truncated_last_line_needs_no_copy(tmp_path, capfd):
    path = tmp_path / "metrics.jsonl"
    path.write_text(line(1) + line(2)[:9])
    MetricsLog(str(path), 1)
    assert path.read_text() == line(1) and os.listdir(tmp_path) == ["metrics.jsonl"] and not capfd.readouterr().err


def test_metrics_hold_no_infinity(tmp_path):
    log = MetricsLog(str(tmp_path / "metrics.jsonl"), 0)
    log.write({"update": 1, "policy_loss": float("inf"), "value_loss": float("nan"), "entropy": 0.5})
    assert (tmp_path / "metrics.jsonl").read_text() == (
        '{"update": 1, "policy_loss": null, "value_loss": null, "entropy": 0.5}\n'
    )


def test_error_of_a_read_does_not_empty_the_metrics(tmp_path, monkeypatch):
    path = tmp_path / "metrics.jsonl"
    path.write_text(line(1))
    fail, whole = failing(errno.EIO), open
    monkeypatch.setattr("builtins.open", lambda name, mode, **how: fail() if mode == "rb" else whole(name, mode, **how))
    with pytest.raises(OSError, match="Input/output"):
        MetricsLog(str(path), 1)
    monkeypatch.undo()
    assert path.read_text() == line(1) and os.listdir(tmp_path) == ["metrics.jsonl"]


def test_error_of_a_read_does_not_erase_the_starts(tmp_path, monkeypatch):
    folder = RunFolder(str(tmp_path / "run"))
    folder.open()
    assert [folder.begin({}, {"env_steps": step}) for step in (0, 5)] == [0, 1]
    monkeypatch.setattr("builtins.open", failing(errno.EIO))
    with pytest.raises(SystemFault, match=r"config.json cannot be read \(Input/output error\)"):
        folder.begin({}, {"env_steps": 9})
    monkeypatch.undo()
    assert [start["env_steps"] for start in folder.starts()] == [0, 5]


@pytest.mark.parametrize("content", [b"", b"5", b"{}", b"[" * 100_000, b'{"starts": [5]}'])
def test_damaged_config_is_copied(tmp_path, capfd, content):
    folder = RunFolder(str(tmp_path / "run"))
    folder.open()
    (tmp_path / "run" / "config.json").write_bytes(content)
    assert folder.begin({}, {"env_steps": 0}) == 0 and len(folder.starts()) == 1
    assert (tmp_path / "run" / "config.json.damaged").read_bytes() == content
    assert "config.json is damaged: the history of starts begins again; a copy is" in capfd.readouterr().err


@pytest.mark.parametrize(
    "content",
    ["{", '[{"checkpoint": "step-0.npz", "env_steps": 1e999, "score": 1, "games": 20}]'],
    ids=["torn", "huge"],
)
def test_damaged_evaluations_are_kept_and_begin_again(tmp_path, capsys, content):
    (tmp_path / "evaluations.json").write_text(content)
    path = tmp_path / "checkpoints" / "step-1.npz"
    path.parent.mkdir()
    path.touch()
    assert evaluations.add(str(tmp_path), str(path), 1, 0.5, 20)
    assert (tmp_path / "evaluations.json.damaged").read_text() == content
    assert "the evaluations begin again" in capsys.readouterr().err
    assert [each["score"] for each in evaluations.read(str(tmp_path))] == [0.5]


def test_damaged_checkpoint_is_set_aside_beside_an_earlier_one(tmp_path):
    good, damaged = (checkpoint_folder.path_of(str(tmp_path / "checkpoints"), step) for step in (1, 2))
    os.makedirs(damaged + ".damaged")
    for path in (good, damaged):
        Path(path).write_text(path)
    checkpoint_folder.set_aside(str(tmp_path), good)
    assert Path(damaged + ".damaged.1").read_text() == damaged and checkpoint_folder.candidates(str(tmp_path)) == [good]


def run_log(folder, update):
    """The open log of a start after ``update``, and its folder."""
    counters, there = Counters(), RunFolder(str(folder))
    counters.update = update
    log = RunLog(time.monotonic, TrainConfig(), there, counters)
    there.open()
    there.claim()
    log.open({"argv": []})
    return log


def test_run_is_ended_once_more_after_a_rank_is_lost_at_the_end(tmp_path, capsys):
    """By a rank 0 that wrote no metrics itself, as when it has just taken over from a lost one."""
    counters, there = Counters(), RunFolder(str(tmp_path))
    log = RunLog(time.monotonic, TrainConfig(track="tensorboard"), there, counters)
    counters.update = 3
    there.open()
    there.claim()
    log.take_over(3)
    log.close("asked to stop", False, 0.0)
    log.close("asked to stop", False, 0.0)
    said = f"stopped: asked to stop. Checkpoint saved; run the same command again to resume {tmp_path}\n"
    assert capsys.readouterr().out == 2 * said


def test_lines_of_a_start_that_saved_nothing_are_dropped(tmp_path):
    """Also if the next start begins at a later update, with the checkpoint of another run."""
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps({"update": n, "wall_s": n}) + "\n" for n in (1, 2, 3)))
    run_log(tmp_path, 4)
    assert (tmp_path / "metrics.jsonl").read_text() == ""


def test_log_of_a_folder_that_another_run_has_taken_is_not_written(tmp_path):
    log = run_log(tmp_path / "run", 0)
    (tmp_path / "run").rename(tmp_path / "old")
    run_log(tmp_path / "run", 0)
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    for write in (lambda: log.evaluated(100, 0.5), lambda: log.close("the end", True, 0.0)):
        with pytest.raises(RunError, match="removed or taken over while in use"):
            write()
    assert {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()} == before
