"""Damaged metrics and settings: what is left of them stays, and a copy of what was there is kept."""

import errno
import json
import os

import pytest
from os_errors import failing

from pg_mpi.config.errors import SystemFault
from pg_mpi.files.metrics_file import MetricsLog
from pg_mpi.files.run_folder import RunFolder
from pg_mpi.run import evaluations


def line(update, **more):
    return json.dumps({"update": update, "wall_s": float(update), **more}) + "\n"


DAMAGED = [b"5\n", b"{}\n", b"\0\0\0\n", b"[" * 100_000 + b"\n", b'{"update": "2"}\n', b'{"update": 2\n', b"\xff\n"]


@pytest.mark.parametrize("damaged", DAMAGED, ids=range(len(DAMAGED)))
def test_lines_after_a_damaged_one_stay(tmp_path, capfd, damaged):
    path = tmp_path / "metrics.jsonl"
    content = line(1).encode() + damaged + line(3).encode() + line(4).encode()
    path.write_bytes(content)
    log = MetricsLog(str(path), 3)
    assert path.read_text() == line(1) + line(3) and (log.last, log.seconds_before) == (3, 4.0)
    assert (tmp_path / "metrics.jsonl.damaged").read_bytes() == content
    assert capfd.readouterr().err == (
        f"pg_mpi: warning: {path} is damaged: 1 lines of it are left out; a copy is {path}.damaged\n"
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


def test_damaged_evaluations_are_kept_and_begin_again(tmp_path, capsys):
    (tmp_path / "evaluations.json").write_text("{")
    assert evaluations.add(str(tmp_path), str(tmp_path / "checkpoints" / "step-1.npz"), 1, 0.5, 20)
    assert (tmp_path / "evaluations.json.damaged").read_text() == "{"
    assert "the evaluations begin again" in capsys.readouterr().err
    assert [each["score"] for each in evaluations.read(str(tmp_path))] == [0.5]
