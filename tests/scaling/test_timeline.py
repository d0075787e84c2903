"""``scaling.measure.timeline``: the merged traces of real ranks agree with the metrics."""

import json

import pytest
from jobs import CARTPOLE, metrics, printed, refusal, tool, train

from scaling.measure.timeline import extremes, main


def test_merged_trace_agrees_with_the_metrics(tmp_path):
    train(2, tmp_path, *CARTPOLE, "--envs-per-rank", 1, "--total-timesteps", 2560, "--trace", module="skewed_clock")
    found = printed(tool("measure.timeline", tmp_path, "run", "--json", "--picture", "trace.png"))
    lines = metrics(tmp_path)
    assert found["ranks"] == 2 and found["updates"] == len(lines) and sum(found["longest"]) == len(lines)
    assert (tmp_path / "trace.png").stat().st_size > 10_000
    merged = json.loads((tmp_path / "run/trace/merged.json").read_text())["traceEvents"]
    blocks = [event for event in merged if event["ph"] == "X"]
    assert len(list((tmp_path / "run/trace").glob("host-*.json"))) == 1, "not one file for both ranks of this host"
    names = sorted(event["args"]["name"] for event in merged if event["name"] == "process_name")
    assert [name.split(" on ")[0] for name in names] == ["rank 0", "rank 1"]
    # the record phase of the first update is in the second; the last includes the final checkpoint
    for line in lines[1:-1]:
        events = [event for event in blocks if event["args"]["update"] == line["update"]]
        for phase in ("gradient", "allreduce", "wait", "optimizer", "emulator", "features"):
            seconds = [
                sum(e["dur"] for e in events if e["name"] == phase and e["pid"] == rank) / 1e6 for rank in (0, 1)
            ]
            assert sum(seconds) / 2 == pytest.approx(line["phase_s"][phase], abs=2e-5), (line["update"], phase)
            assert max(seconds) == pytest.approx(line["phase_max_s"][phase], abs=2e-5)
    for rank in (0, 1):
        row = [event for event in blocks if event["pid"] == rank and event["tid"] == 0]
        for before, after in zip(row, row[1:]):
            assert before["ts"] + before["dur"] <= after["ts"] + 0.2, "phases overlap"
    # the skewed clocks are aligned: all ranks leave an exchange at about the same time
    ends = [[e["ts"] + e["dur"] for e in blocks if e["name"] == "allreduce" and e["pid"] == rank] for rank in (0, 1)]
    differences = sorted(abs(a - b) for a, b in zip(*ends))
    assert len(ends[0]) == len(ends[1]) and differences[len(differences) // 2] < 1_000_000


def test_truncated_trace_of_the_last_start(tmp_path):
    for steps in (500, 2000):
        train(1, tmp_path, *CARTPOLE, "--total-timesteps", steps, "--trace")
    first, second = sorted((tmp_path / "run/trace").glob("host-*-start-*.json"))
    assert json.loads(first.read_text().removesuffix(",\n") + "]"), "the complete trace has no events"
    text = second.read_text()
    second.write_text(text[: len(text) // 2])
    truncated = tool("measure.timeline", tmp_path, "run", "--json", "--picture", "trace.png")
    assert 0 < printed(truncated)["updates"] <= len(metrics(tmp_path))


def test_bad_input_is_refused_with_one_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    train(1, tmp_path, *CARTPOLE, "--total-timesteps", 300, "--trace")
    for args, message in (
        (["--picture", "x.png"], "the traces hold no update after the first"),
        (["--picture", "x.xyz"], "--picture must end with .png or .svg or .pdf, not 'x.xyz'"),
        (["--picture", "nowhere/x.png"], "--picture nowhere/x.png: the folder nowhere does not exist"),
    ):
        assert message in refusal(main, "run", *args)
    (path,) = (tmp_path / "run/trace").glob("host-*.json")
    head = path.read_text().splitlines()[0]
    for content, message in (
        (b"\xff\xfe\x00", "is not a trace of pg_mpi"),
        (f"{head}\n{{x}},\n".encode(), "is damaged"),
    ):
        path.write_bytes(content)
        assert message in refusal(main, "run")


def test_only_the_ranks_that_wait_least_and_most_are_shown():
    assert extremes([0.3, 0.1, 0.2]) == [0, 1, 2]
    shares = [(rank * 7919 % 100_000) / 1e5 for rank in range(100_000)]  # all different
    shown = [shares[rank] for rank in extremes(shares)]
    assert sorted(shown) == [*(k / 1e5 for k in range(16)), *(k / 1e5 for k in range(99_984, 100_000))]


def test_run_without_the_trace_flag_is_refused(tmp_path):
    train(1, tmp_path, *CARTPOLE, "--total-timesteps", 100)
    assert not (tmp_path / "run/trace").exists()
    assert "run has no traces: train it with --trace" in refusal(main, tmp_path / "run")
