"""Trajectories, counters, the metrics file and the progress lines."""

import io
import json

import numpy as np
import pytest

from pg_mpi.config.settings import TrainConfig
from pg_mpi.files.metrics_file import MetricsLog, Progress, clock
from pg_mpi.learning.trajectory import Trajectory
from pg_mpi.run.counters import Counters


def test_trajectory_keeps_what_it_was_given():
    rng = np.random.default_rng(0)
    trajectory = Trajectory()
    given = [rng.integers(12_800, size=rng.integers(0, 90)) for _ in range(50)]
    for t, seen in enumerate(given):
        trajectory.record(seen, t % 3, -0.5 * t, 0.25 * t, float(t % 2), t % 7 == 0)
    assert trajectory.length == 50 and trajectory.ended
    trajectory.foresee(0.5)
    np.testing.assert_array_equal(trajectory.observed, np.concatenate(given))
    np.testing.assert_array_equal(trajectory.counts, [len(seen) for seen in given])
    np.testing.assert_array_equal(trajectory.actions, np.arange(50) % 3)
    np.testing.assert_array_equal(trajectory.log_probs, -0.5 * np.arange(50))
    np.testing.assert_array_equal(trajectory.values, 0.25 * np.arange(50))
    np.testing.assert_array_equal(trajectory.rewards, np.arange(50) % 2)
    assert trajectory.ahead == [(49, 0.5)]
    np.testing.assert_array_equal(trajectory.ends, np.arange(50) % 7 == 0)


def test_an_empty_trajectory_has_empty_arrays():
    empty = Trajectory()
    arrays = empty.observed, empty.counts, empty.actions, empty.log_probs, empty.values, empty.rewards, empty.ends
    assert all(len(array) == 0 for array in arrays) and empty.length == 0


def test_tally_counts_a_window_of_100_games():
    counters = Counters()
    assert counters.return_mean is None and not counters.reached(-100)
    counters.add(500, [(-21, 250)] * 99)
    assert not counters.reached(-21), "fewer than 100 games never reach a target"
    counters.add(500, [(19, 250)])
    assert counters.return_mean == pytest.approx(-20.6)
    assert counters.reached(-20.6) and not counters.reached(-20.5) and not counters.reached(None)
    counters.add(100, [(21, 100)] * 100, emulator_errors=2)
    assert (counters.games, counters.env_steps, counters.update, counters.return_mean) == (200, 1100, 3, 21)
    other = Counters()
    other.restore(json.loads(json.dumps(counters.state())))
    assert other.state() == counters.state()
    assert other.metrics() == {
        "games": 200,
        "return_mean": 21,
        "return_ci95": 0,
        "return_last": 21,
        "length_mean": 100,
        "emulator_errors": 2,
    }


def test_the_interval_is_that_of_the_last_100_games():
    counters = Counters()
    scores = np.random.default_rng(0).normal(3, 5, size=250)
    assert counters.return_ci95 is None
    counters.add(250, [(scores[0], 250)])
    assert counters.return_ci95 is None, "one game has no deviation"
    counters.add(250, [(score, 250) for score in scores[1:20]])
    assert counters.return_ci95 == pytest.approx(1.96 * scores[:20].std(ddof=1) / 20**0.5)
    counters.add(250, [(score, 250) for score in scores[20:]])
    assert counters.metrics()["return_ci95"] == pytest.approx(1.96 * scores[-100:].std(ddof=1) / 10)
    other = Counters()
    other.restore(json.loads(json.dumps(counters.state())))
    assert other.return_ci95 == counters.return_ci95, "the same bits after a checkpoint"


def test_metrics_of_lost_updates_are_taken_back(tmp_path):
    path = str(tmp_path / "metrics.jsonl")
    log = MetricsLog(path, 0)
    for update in range(1, 6):
        log.write({"update": update, "wall_s": 10.0 * update})
    with open(path, "a", encoding="utf-8") as file:
        file.write('{"update": 6, "wal')  # a kill in the middle of a line
    log = MetricsLog(path, 3)
    assert log.seconds_before == 50.0, "lost updates took training time all the same"
    log.write({"update": 4, "wall_s": 60.0})
    with open(path, encoding="utf-8") as file:
        assert [json.loads(line)["update"] for line in file] == [1, 2, 3, 4]


METRICS = {"update": 7, "env_steps": 9000, "sps": 4321.0, "games": 12, "return_mean": -20.25, "wall_s": 3.0}


def test_batch_log_lines_have_no_control_characters():
    stream = io.StringIO()
    progress = Progress(TrainConfig(log_interval=1000.0), 0.0, live=False, stream=stream)
    progress.show(METRICS)
    progress.show(METRICS)  # too soon for another
    text = stream.getvalue()
    assert text.count("\n") == 1 and text.strip().isprintable()
    assert "4,321 steps/s" in text and "-20.25" in text and "12 games" in text


def test_live_line_rewrites_itself():
    stream = io.StringIO()
    progress = Progress(TrainConfig(total_timesteps=18_000), 0.0, live=True, stream=stream)
    progress.show({**METRICS, "return_mean": None})
    assert stream.getvalue().startswith("\r") and "\n" not in stream.getvalue()
    assert "no game finished yet" in stream.getvalue() and "0:00:02 left" in stream.getvalue()
    progress.say("done")
    assert stream.getvalue().endswith("\ndone\n")


def test_clock():
    assert clock(3723.9) == "1:02:03"
