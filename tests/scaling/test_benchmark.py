"""``pg-mpi benchmark``: the line, its conditions, and a real short run."""

import json
import sys

import pytest
from jobs import refusal, run

from pg_mpi.config.errors import UsageError
from scaling import benchmark

RECORD = {"size": "node", "ranks": 2, "steps_per_s": 4312.4, "reason": None}
RECORD |= {"doctor": {"findings": [{"name": "idle", "fault": False, "text": "a note"}]}, "digests": {"a": 1, "b": 1}}
BUSY = {"name": "busy", "fault": True, "text": "n1: rank 0 got 40 % of a core"}

SHORTER = """
import sys
from scaling import benchmark, cli
benchmark.SECONDS, benchmark.WARMUP = 9, 4
assert "--envs-per-rank 8" in benchmark.CASE
benchmark.CASE = benchmark.CASE.replace("--envs-per-rank 8", "--envs-per-rank 2")
cli.run(benchmark.main)
"""


def test_valid_result_is_one_line():
    assert benchmark.fault(RECORD) is None
    assert benchmark.line_of(RECORD) == "FOM: 4,312 steps/s VALID (pg_mpi benchmark 1, node, 2 ranks)"


@pytest.mark.parametrize(
    "change, reason",
    [
        ({"doctor": {"findings": [BUSY]}}, "the doctor finds a fault: busy: n1: rank 0 got 40 % of a core"),
        (
            {"digests": {"1 rank": 255, "2 ranks": 1}},
            "has other weights on another number of ranks: 000000ff on 1 rank",
        ),
    ],
)
def test_invalid_result_has_a_reason_and_no_number(change, reason):
    record = RECORD | change
    record["reason"] = benchmark.fault(record)
    assert reason in record["reason"]
    assert benchmark.line_of(record) == f"INVALID: {record['reason']}" and "4,312" not in benchmark.line_of(record)


def test_failed_training_is_invalid_with_the_fault_that_caused_it(tmp_path, monkeypatch):
    """As where every process is a job of its own: the doctor says so, and the trainer refuses one rank of two."""
    findings = []
    monkeypatch.setattr(benchmark, "examine", lambda *args: {"findings": findings})

    def digests(ranks, launcher):
        raise UsageError("--expect-ranks 2, but MPI gives 1")

    monkeypatch.setattr(benchmark, "digests", digests)
    for name, reason in (("first", "--expect-ranks 2, but MPI gives 1"), ("second", "the doctor finds a fault: busy")):
        assert benchmark.main(["machine", "--ranks", "2", "--out", str(tmp_path / name)]) == 1
        assert json.loads((tmp_path / name / "benchmark.json").read_text())["reason"].startswith(reason)
        findings.append(BUSY)


def test_bad_input_is_refused_with_one_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(benchmark, "allocated_ranks", lambda: None)
    for args, message in (
        (["nodes"], "one of core, node, machine"),
        (["core", "--ranks", "2"], "--ranks is for the size machine"),
        (["machine"], "machine needs a batch job, or the number of ranks: give --ranks"),
        (["machine", "--ranks", "2", "--launcher", "no-such"], "the launcher no-such is not on the PATH"),
    ):
        assert message in refusal(benchmark.main, *args)


def test_record_of_another_number_of_ranks_is_not_replaced(tmp_path):
    record = tmp_path / "benchmark.json"
    record.write_text('{"command": "python -m scaling.benchmark machine --ranks 4"}')
    message = f"{record} is not a result of this same command"
    assert message in refusal(benchmark.main, "machine", "--ranks", "2", "--out", str(tmp_path))


def test_two_ranks_have_equal_digests_and_a_record(tmp_path):
    """With a shorter measurement and shorter updates. On a busy machine the result is invalid, and says so."""
    (tmp_path / "shorter.py").write_text(SHORTER)
    done = run([sys.executable, "shorter.py", "machine", "--ranks", "2", "--out", "out"], tmp_path, limit=180)
    record = json.loads((tmp_path / "out" / "benchmark.json").read_text())
    last = done.stdout.splitlines()[-1]
    assert len(set(record["digests"].values())) == 1 and len(record["digests"]) == 2, record["digests"]
    assert record["ranks"] == 2 and len(record["doctor"]["ranks"]) == 2
    if record["valid"]:
        assert done.returncode == 0 and record["steps_per_s"] > 50
        assert last.startswith(f"FOM: {record['steps_per_s']:,.0f} steps/s VALID")
    else:
        assert done.returncode == 1 and last == f"INVALID: {record['reason']}"
        assert "the doctor finds" in last or "fewer than two updates" in last
