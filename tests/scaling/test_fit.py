"""``scaling.model.fit``: recovered parameters, intervals, the figures of the 2016 blog story and bad input."""

import json
import math

import numpy as np
import pytest
from jobs import printed, read_csv, refusal, tool

from pg_mpi.files.csv_table import write_csv
from scaling.model import scaling_laws
from scaling.model.fit import main

RANKS = [1, 2, 4, 8, 16, 32]


def test_linear_extrapolation_to_44000_steps_per_second(tmp_path):
    """The line 746 + 336 N steps/s of the 2016 blog story, measured on 1 to 16 cores, gives 128.7 cores."""
    points = ",".join(f"{n}:{746 + 336 * n}" for n in (1, 2, 4, 8, 16))
    result = tool("model.fit", tmp_path, points, "--target", 44000, "--json", "--out", ".")
    line, amdahl, usl = printed(result)["fits"]
    assert line["parameters"]["a"]["value"] == pytest.approx(746)
    assert line["parameters"]["b"]["value"] == pytest.approx(336)
    assert line["needed"][0]["ranks"] == 129
    assert amdahl["needed"][0]["ranks"] is None and usl["needed"][0]["ranks"] is None
    assert {path.name for path in tmp_path.iterdir()} == {"fit.json", "fit.png"}
    assert json.loads((tmp_path / "fit.json").read_text())["fits"] == [line, amdahl, usl]
    assert "44,000 steps/s: 129 ranks" in result.stdout and "44,000 steps/s: never" in result.stdout


def test_linear_extrapolation_with_the_measured_speed_of_one_core(tmp_path):
    """With the 440 steps/s of one core, not the 1,082 of the line, the fit differs and its interval is wide."""
    ranks = np.array([1, 2, 4, 8, 16])
    sps = np.array([440, *(746 + 336 * ranks[1:])])
    result = tool("model.fit", tmp_path, ",".join(f"{n}:{x}" for n, x in zip(ranks, sps)), "--target", 44000, "--json")
    line = printed(result)["fits"][0]
    slope, intercept = np.polyfit(ranks, sps, 1, w=1 / sps)  # least squares of relative errors
    assert line["parameters"]["a"]["value"] == pytest.approx(intercept, rel=1e-3)
    assert line["parameters"]["b"]["value"] == pytest.approx(slope, rel=1e-3)
    (needed,) = line["needed"]
    assert needed["ranks"] == math.ceil((44000 - intercept) / slope) and needed["low"] < needed["ranks"] - 5
    assert needed["high"] is None or needed["high"] > needed["ranks"] + 5


@pytest.mark.parametrize(
    "law, parameters", [(scaling_laws.AMDAHL, (400.0, 0.03)), (scaling_laws.USL, (400.0, 0.03, 0.0005))]
)
def test_fit_recovers_the_parameters_of_a_law(law, parameters):
    speed, serial, cross = (*parameters, 0.0)[:3]
    sps = [speed * n / (1 + serial * (n - 1) + cross * n * (n - 1)) for n in RANKS]
    found = scaling_laws.fit(law, RANKS, sps, targets=[2000, 1e9])
    for name, value in zip(law.parameters, parameters):
        assert found["parameters"][name]["value"] == pytest.approx(value, rel=1e-6)
    assert abs(found["left_out"]["error"]) < 1e-6
    reached, never = found["needed"]
    n = reached["ranks"]
    for ranks, enough in ((n, True), (n - 1, False)):
        assert (speed * ranks / (1 + serial * (ranks - 1) + cross * ranks * (ranks - 1)) >= 2000) == enough
    assert never["ranks"] is None and never["low"] is None


def test_speeds_that_decrease_with_the_ranks():
    """If four ranks are slower than two, the serial share is 1, its maximum, and the speed is constant."""
    found = scaling_laws.fit(scaling_laws.AMDAHL, [2, 4], [1800, 1100], [5000])
    assert found["parameters"]["contention"]["value"] == pytest.approx(1)
    assert found["parameters"]["speed"]["value"] == pytest.approx((1800**2 + 1100**2) / 2900)
    assert found["needed"][0]["ranks"] is None


@pytest.mark.parametrize("sps", [[4046, 7652, 3136], [1000, 1900, 1500], [1000, 1950, 3800, 2000]])
def test_a_sharp_drop_gives_no_infinite_interval(sps):
    """Oversubscribed cores, or a slow link between hosts."""
    ranks = [1, 2, 4, 8][: len(sps)]
    for fit in scaling_laws.fit_all(ranks, sps, [2 * max(sps)]):
        bounds = [value for each in fit["parameters"].values() for value in each.values() if value is not None]
        assert np.isfinite(bounds).all()


def test_too_few_points_give_no_fit_or_no_interval():
    one, two = (
        scaling_laws.fit(scaling_laws.LINE, [2], [800], [1000]),
        scaling_laws.fit(scaling_laws.LINE, [1, 2], [400, 800], [4000]),
    )
    assert one["problem"] == "needs 2 different numbers of ranks"
    assert two["needed"] == [{"sps": 4000, "ranks": 10, "low": None, "high": None, "interval": False}]
    assert two["left_out"] is None and two["parameters"]["b"]["low"] is None


def test_csv_round_trip(tmp_path):
    path, rows = tmp_path / "a.csv", [{"ranks": 1, "sps": 2.5, "note": "x"}, {"ranks": 2, "sps": 1e9, "note": "y, z"}]
    write_csv(str(path), "sweep", 1, rows, {"commit": "abc", "cores": 2})
    assert read_csv(path, "sweep", 1) == (rows, {"commit": "abc", "cores": "2"})


@pytest.mark.parametrize(
    "content",
    [
        "# pg_mpi sweep 99\nranks,sps\n1,2\n",
        "# pg_mpi cost 1\nranks,sps\n1,2\n",
        "ranks,sps\n1,2\n",
        "",
        "# pg_mpi sweep 1\nranks,sps\n1\n",
        "# pg_mpi sweep 1\nranks,speed\n1,2\n",
        "# pg_mpi sweep 1\nranks,sps\n1,fast\n",
        "# pg_mpi sweep 1\nranks,sps\n1,nan\n2,3\n",
        "# pg_mpi sweep 1\nranks,sps\n1,inf\n2,3\n",
        "# pg_mpi sweep 1\nranks,sps\n1,2\n-1,3\n",
        f"# pg_mpi sweep 1\nranks,sps\n1,{'2' * 200_000}\n",
    ],
)
def test_bad_files_are_refused_with_one_line(tmp_path, content):
    (tmp_path / "sweep.csv").write_text(content)
    assert "sweep.csv is missing, damaged or of another version: measure it again" in refusal(main, tmp_path)


def test_sweep_without_points_is_refused(tmp_path):
    (tmp_path / "sweep.csv").write_text("# pg_mpi sweep 1\nranks,sps\n")
    assert "sweep.csv contains no point" in refusal(main, tmp_path)


def test_95_percent_intervals_cover_the_true_value(monkeypatch):
    rng, ranks = np.random.default_rng(1), np.array([1, 1, 2, 2, 4, 4, 8, 8])
    covered = 0
    truth = 300 * ranks / (1 + 0.05 * (ranks - 1))
    runs = 400
    monkeypatch.setattr(scaling_laws, "DRAWS", 200)
    for seed in range(runs):
        sps = truth * np.exp(0.03 * rng.standard_normal(len(ranks)))
        serial = scaling_laws.fit(scaling_laws.AMDAHL, ranks, sps, seed=seed)["parameters"]["contention"]
        covered += serial["low"] <= 0.05 <= serial["high"]
    assert 0.925 < covered / runs < 0.975


def test_error_of_a_point_that_is_left_out_has_its_sign():
    found = scaling_laws.fit(scaling_laws.LINE, [1, 2, 4], [100, 200, 200])
    assert found["left_out"] == {
        "ranks": 4,
        "measured": 200.0,
        "predicted": pytest.approx(400),
        "error": pytest.approx(1),
    }


@pytest.mark.parametrize("coherency", [0.0005, 0.02])
def test_ranks_needed_are_the_first_that_reach_the_speed(coherency):
    ranks = [1, 2, 4, 8]

    def speed(n):
        return 400 * n / (1 + 0.03 * (n - 1) + coherency * n * (n - 1))

    target = 0.999 * max(map(speed, range(1, 200)))
    found = scaling_laws.fit(scaling_laws.USL, ranks, list(map(speed, ranks)), [target])["needed"][0]["ranks"]
    assert found == next(n for n in range(1, 200) if speed(n) >= target)


def test_band_at_one_rank_is_the_interval_of_the_speed():
    rng = np.random.default_rng(0)
    ranks = np.array([1, 1, 2, 2, 4, 4, 8, 8])
    sps = 300 * ranks / (1 + 0.05 * (ranks - 1)) * np.exp(0.03 * rng.standard_normal(8))
    _, low, high = scaling_laws.band(scaling_laws.AMDAHL, ranks, sps, [1])
    found = scaling_laws.fit(scaling_laws.AMDAHL, ranks, sps)["parameters"]["speed"]
    assert (low[0], high[0]) == pytest.approx((found["low"], found["high"]))
