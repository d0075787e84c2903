"""Summaries of metrics and of repeated measurements, by hand."""

import pytest

from scaling.measure import efficiency, timed_run


def test_metrics_after_the_warmup():
    lines = [
        {
            "wall_s": w,
            "env_steps": s,
            "update": u,
            "ranks": 2,
            "phase_s": {"wait": p},
            "phase_max_s": {"wait": 2 * p},
            "updates_per_s": 1.0 / d,
            "exchanges": 8 * u,
            "bytes_exchanged": 80 * u,
            "rss_mb": 50.0 + u,
            "cpu_util": c,
            "gflops": 1.0,
        }
        for u, (w, d, s, p, c) in enumerate(
            [(3, 3, 100, 2.0, 0.1), (5, 2, 300, 0.1, 0.2), (6, 1, 400, 0.5, 0.6), (9, 3, 900, 0.5, 1.0)], start=1
        )
    ]
    found = timed_run.measured(lines, 4)
    assert (found["sps"], found["between_updates"], found["updates_per_s"]) == (150, [2, 4], 0.5)
    assert (found["exchanges_per_update"], found["bytes_per_update"], found["rss_mb"]) == (8, 80, 54)
    assert found["cpu_util"] == pytest.approx((0.6 + 3 * 1.0) / 4)
    assert found["phase_share"] == {"wait": 0.25, "other": 0.75} and found["phase_max_share"] == {"wait": 0.5}


def test_error_of_a_job_is_one_line(capsys):
    traceback = 'Traceback (most recent call last):\n  File "x.py", line 3\nnumpy.exceptions.AxisError: axis 2'
    error = timed_run.failure(1, f"{traceback}\nmpirun detected that a process ended\n")
    assert str(error) == "exit code 1: numpy.exceptions.AxisError: axis 2"
    assert traceback in capsys.readouterr().err
    assert (
        str(timed_run.failure(9, "killed\n")) == "exit code 9: killed"
        and str(timed_run.failure(9, "")) == "exit code 9"
    )


def test_efficiency_is_of_median_speeds_per_rank():
    def result(ranks, sps):
        return dict.fromkeys(efficiency.NUMBERS, 0.0) | {
            "ranks": ranks,
            "sps": sps,
            "phase_share": {"wait": 0.1},
            "phase_max_share": {"wait": 0.2},
        }

    rows = efficiency.summary(
        [result(2, 100.0), result(4, 130.0), result(2, 120.0), result(4, 150.0), result(4, 400.0), result(2, 10.0)]
    )
    assert [(row["ranks"], row["sps"], row["efficiency"], row["repeats"]) for row in rows] == [
        (2, 100, 1, 3),
        (4, 150, 0.75, 3),
    ]
