"""``pg_mpi.report.read``: damaged, foreign and incomplete metrics."""

import json

import pytest
from folders import line, write_lines, write_run

from pg_mpi.report import page, read

DAMAGED = {
    "not JSON": b'{"update": 3,',
    "bytes": b"\xff\xfe\x00",
    "deep": b"[" * 100_000,
    "a list": b"[3]",
    "no update": json.dumps(line(3) | {"update": None}).encode(),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_damaged_lines_of_metrics_are_left_out_with_a_note(tmp_path, case):
    folder = write_run(tmp_path / "run", updates=2)
    with open(folder / "metrics.jsonl", "ab") as file:
        file.write(DAMAGED[case] + b"\n" + json.dumps(line(4)).encode() + b"\n")
    (run,) = read.runs([str(folder)])
    assert run.columns["update"].tolist() == [1, 2, 4]
    assert "damaged lines of metrics.jsonl are left out: 1" in run.notes


UNUSABLE = {
    "back": (line(1), "(its update of update 1 cannot be used)"),
    "huge": (line(3) | {"wall_s": 1e300}, "(its wall_s of update 3 cannot be used)"),
    "infinite": (line(3) | {"sps": float("inf")}, "(its sps of update 3 cannot be used)"),
    "no number": (line(3) | {"sps": float("nan")}, "(its sps of update 3 cannot be used)"),
    "large integer": (line(3) | {"games": 10**400}, "(its games of update 3 cannot be used)"),
    "negative": (line(3) | {"ranks": -1}, "(its ranks of update 3 cannot be used)"),
    "no ranks": (line(3) | {"ranks": 0}, "(its ranks of update 3 cannot be used)"),
    "no time": (line(3) | {"updates_per_s": 0}, "(its updates_per_s of update 3 cannot be used)"),
    "huge mean": (line(3) | {"return_mean": 1e300}, "(its return_mean of update 3 cannot be used)"),
    "negative phase": (
        line(3) | {"phase_s": line(3)["phase_s"] | {"emulator": -1}},
        "(its emulator of update 3 cannot be used)",
    ),
    "other type": (line(3) | {"sps": "9"}, "(its sps of update 3 cannot be used)"),
    "deep object": (
        line(3) | {"sps": json.loads('{"a":' * 400 + "1" + "}" * 400)},
        "(its sps of update 3 cannot be used)",
    ),
}


@pytest.mark.parametrize("case", UNUSABLE)
def test_unusable_metrics_are_refused(tmp_path, case):
    content, expected = UNUSABLE[case]
    folder = write_run(tmp_path / "run", updates=2)
    with open(folder / "metrics.jsonl", "a", encoding="utf-8") as file:
        file.write(json.dumps(content) + "\n" + json.dumps(line(4)) + "\n")
    with pytest.raises(read.UsageError) as refused:
        read.runs([str(folder)])
    assert f"is damaged or of another version of pg_mpi {expected}: take" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_phases_of_older_versions(tmp_path):
    fewer = line(2) | {"phase_s": {"emulator": 0.5}}
    write_lines(tmp_path, [line(1), fewer])
    (run,) = read.runs([str(tmp_path)])
    assert run.columns["emulator"][1] == 0.5 and run.columns["wait"][1] == 0
    write_lines(tmp_path, [{name: value for name, value in fewer.items() if name != "phase_s"}])
    with pytest.raises(read.UsageError, match="it has no phase_s"):
        read.runs([str(tmp_path)])


def test_incomplete_last_line_is_ignored(tmp_path):
    folder = write_run(tmp_path / "run", updates=3)
    with open(folder / "metrics.jsonl", "a", encoding="utf-8") as file:
        file.write('{"update": 4, "é')
    (run,) = read.runs([str(folder)])
    assert run.columns["update"].tolist() == [1, 2, 3]


def test_speed_is_a_mean_over_time(tmp_path):
    lines = [line(n, seconds=float(s)) | {"sps": 100.0 * n} for n, s in enumerate([1, 1, 2, 4, 2, 1], start=1)]
    write_lines(tmp_path, lines)
    (run,) = read.runs([str(tmp_path)])
    assert page._row(run)[3] == "373"  # (100 + 200 + 2 * 300 + 4 * 400 + 2 * 500 + 600) / 11
