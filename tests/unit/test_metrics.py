"""Trajectories, counters, the metrics file and the progress lines."""

import io
import json
import struct

import numpy as np
import pytest
from tensorboardX.proto import event_pb2

from pg_mpi.config.settings import TrainConfig
from pg_mpi.files.metrics_file import MetricsLog, Progress, TensorBoard, clock
from pg_mpi.learning.trajectory import Trajectory
from pg_mpi.run.counters import Counters


def test_trajectory_returns_the_recorded_arrays():
    rng = np.random.default_rng(0)
    trajectory = Trajectory()
    observations = [rng.integers(12_800, size=rng.integers(0, 90)) for _ in range(50)]
    for t, observation in enumerate(observations):
        trajectory.record(observation, t % 3, -0.5 * t, 0.25 * t, float(t % 2), t % 7 == 0)
    assert trajectory.length == 50 and trajectory.ended
    trajectory.bootstrap(0.5)
    np.testing.assert_array_equal(trajectory.observed, np.concatenate(observations))
    np.testing.assert_array_equal(trajectory.counts, [len(observation) for observation in observations])
    np.testing.assert_array_equal(trajectory.actions, np.arange(50) % 3)
    np.testing.assert_array_equal(trajectory.log_probs, -0.5 * np.arange(50))
    np.testing.assert_array_equal(trajectory.values, 0.25 * np.arange(50))
    np.testing.assert_array_equal(trajectory.rewards, np.arange(50) % 2)
    assert trajectory.ahead == [(49, 0.5)]
    np.testing.assert_array_equal(trajectory.ends, np.arange(50) % 7 == 0)


def test_empty_trajectory_has_empty_arrays():
    empty = Trajectory()
    arrays = empty.observed, empty.counts, empty.actions, empty.log_probs, empty.values, empty.rewards, empty.ends
    assert all(len(array) == 0 for array in arrays) and empty.length == 0


def test_counters_average_the_last_100_games():
    counters = Counters()
    assert counters.return_mean is None and not counters.reached(-100)
    counters.add(500, 99, [(-21, 250)] * 99, 0, 500)
    assert not counters.reached(-21), "fewer than 100 games reach a target"
    counters.add(500, 1, [(19, 250)], 0, 500)
    assert counters.return_mean == pytest.approx(-20.6)
    assert counters.reached(-20.6) and not counters.reached(-20.5) and not counters.reached(None)
    counters.add(100, 100, [(21, 100)] * 100, 2, 100)
    assert (counters.games, counters.env_steps, counters.update, counters.return_mean) == (200, 1100, 3, 21)
    restored = Counters()
    restored.restore(json.loads(json.dumps(counters.state())))
    assert restored.state() == counters.state()
    assert restored.metrics() == {
        "games": 200,
        "return_mean": 21,
        "return_ci95": 0,
        "return_last": 21,
        "length_mean": 100,
        "emulator_errors": 2,
    }


def test_return_ci95_is_that_of_the_last_100_games():
    counters = Counters()
    scores = np.random.default_rng(0).normal(3, 5, size=250)
    assert counters.return_ci95 is None
    counters.add(250, 1, [(scores[0], 250)], 0, 250)
    assert counters.return_ci95 is None, "the deviation of one game is undefined"
    counters.add(250, 19, [(score, 250) for score in scores[1:20]], 0, 250)
    assert counters.return_ci95 == pytest.approx(1.96 * scores[:20].std(ddof=1) / 20**0.5)
    counters.add(250, len(scores) - 20, [(score, 250) for score in scores[20:]], 0, 250)
    assert counters.metrics()["return_ci95"] == pytest.approx(1.96 * scores[-100:].std(ddof=1) / 10)
    restored = Counters()
    restored.restore(json.loads(json.dumps(counters.state())))
    assert restored.return_ci95 == counters.return_ci95, "the interval changes after a restore"


def test_metrics_log_drops_updates_after_the_checkpoint(tmp_path):
    path = str(tmp_path / "metrics.jsonl")
    log = MetricsLog(path, 0)
    for update in range(1, 6):
        log.write({"update": update, "wall_s": 10.0 * update})
    with open(path, "a", encoding="utf-8") as file:
        file.write('{"update": 6, "wal')  # an incomplete line, as after a kill
    log = MetricsLog(path, 3)
    assert log.seconds_before == 50.0, "the time of dropped updates counts"
    log.write({"update": 4, "wall_s": 60.0})
    with open(path, encoding="utf-8") as file:
        assert [json.loads(line)["update"] for line in file] == [1, 2, 3, 4]


METRICS = {"update": 7, "env_steps": 9000, "sps": 4321.0, "games": 12, "return_mean": -20.25, "wall_s": 3.0}


def test_progress_lines_in_a_batch_log_have_no_control_characters():
    stream = io.StringIO()
    progress = Progress(TrainConfig(log_interval=1000.0), float, live=False, stream=stream)
    progress.show(METRICS)
    progress.show(METRICS | {"update": 8})  # within the log interval: no second line
    text = stream.getvalue()
    assert text.count("\n") == 1 and text.strip().isprintable()
    assert "4,321 steps/s" in text and "-20.25" in text and "12 games" in text


def test_progress_lines_are_a_log_interval_apart():
    stream = io.StringIO()
    progress = Progress(TrainConfig(log_interval=1e-9), float, live=False, stream=stream)
    for update in (7, 8, 8):
        progress.show(METRICS | {"update": update})
    assert [line.split()[1] for line in stream.getvalue().splitlines()] == ["7", "8"]


def test_live_progress_rewrites_one_line():
    stream = io.StringIO()
    progress = Progress(TrainConfig(total_timesteps=18_000), float, live=True, stream=stream)
    progress.show({**METRICS, "return_mean": None})
    first = stream.getvalue()
    assert first.count("\n") == 1 and first.endswith("\n"), "mpirun passes on whole lines only"
    assert "no game finished yet" in first and "0:00:02 left" in first and "\x1b[A" not in first
    progress.show({**METRICS, "update": METRICS["update"] + 1}, force=True)
    assert stream.getvalue().removeprefix(first).startswith("\x1b[A\x1b[K"), "it is drawn over the line before"
    progress.say("done")
    assert stream.getvalue().endswith("\ndone\n")
    before = stream.getvalue()
    progress.show({**METRICS, "update": METRICS["update"] + 2}, force=True)
    assert "\x1b[A" not in stream.getvalue().removeprefix(before), "a permanent line stays"


def test_clock_formats_seconds():
    assert clock(3723.9) == "1:02:03"


def test_starts_within_a_second_have_a_tensorboard_file_each(tmp_path, monkeypatch):
    monkeypatch.setattr("tensorboardX.event_file_writer.time.time", lambda: 1_700_000_000.5)
    for _ in range(3):
        TensorBoard(str(tmp_path), 0).close()
    files = list(tmp_path.iterdir())
    assert len(files) == 3 and all(file.stat().st_size for file in files)


def test_events_of_updates_that_were_not_saved_are_purged(tmp_path):
    """TensorBoard drops all events from the step of a start on."""

    def starts(path):
        data, steps = path.read_bytes(), []
        while data:
            (size,) = struct.unpack("<Q", data[:8])
            event = event_pb2.Event.FromString(data[12 : 12 + size])
            data = data[16 + size :]
            if event.session_log.status == event_pb2.SessionLog.START:
                steps.append(event.step)
        return steps

    for steps in (0, 500):
        TensorBoard(str(tmp_path), steps).close()
    assert [starts(path) for path in sorted(tmp_path.iterdir(), key=lambda path: path.suffix)] == [[], [501]]


def test_full_disk_under_tensorboard_is_an_error_at_once(tmp_path):
    """Its own writer's thread would end, and the next writes would block."""
    board = TensorBoard(str(tmp_path / "tensorboard"), 0)
    with open("/dev/full", "wb", buffering=0) as full:
        board._writer._py_recordio_writer._writer = full
        with pytest.raises(OSError, match="No space left"):
            board.write(dict.fromkeys(TensorBoard.TAGS.values(), 0.5) | {"env_steps": 7})


def test_metrics_that_a_full_disk_cannot_hold_are_given_up(tmp_path):
    """Else Python tries again at the exit, and since 3.13 prints why it cannot."""
    log = MetricsLog(str(tmp_path / "metrics.jsonl"), 0)
    with open("/dev/full", "a") as full:
        log._file = full
        with pytest.raises(OSError, match="No space left"):
            log.write({"update": 1})
        assert full.closed


def test_progress_shows_the_speed_since_the_line_before():
    stream = io.StringIO()
    progress = Progress(TrainConfig(), float, live=False, stream=stream)
    metrics = {"update": 7, "env_steps": 9000, "sps": 4321.0, "games": 12, "return_mean": -20.25, "wall_s": 3.0}
    progress.show(metrics)
    progress.show(metrics | {"update": 8, "env_steps": 10_000, "wall_s": 5.0}, force=True)
    assert "500 steps/s" in stream.getvalue().splitlines()[1]
