"""Virtual ranks compute the same weights as real ranks, on a simulated clock."""

import json
import signal
import sys
import time

import numpy as np
import pytest
from jobs import (
    CARTPOLE,
    SMALL,
    command,
    deterministic,
    finish,
    newest,
    printed,
    read_csv,
    refusal,
    run,
    start,
    tool,
    train_here,
    wait_for_updates,
)

from scaling.model.virtual import check
from scaling.model.virtual.__main__ import main
from scaling.model.virtual.comparison import compare, table
from scaling.model.virtual.world import Hub
from scaling.tables import medians

GAMES = ["--max-frames", "400", "--total-timesteps", "800"]
BALANCE = [*CARTPOLE, "--total-timesteps", "3000"]


@pytest.mark.parametrize("ranks, flags", [(2, BALANCE), (4, [*GAMES, "--reproducible"])])
def test_weights_equal_those_of_real_ranks(tmp_path, ranks, flags):
    run(command(ranks, "pg_mpi.train", "--run-dir", "real", "--seed", "3", *SMALL, *flags), tmp_path, code=0)
    tool("model.virtual", tmp_path, "--ranks", ranks, "--seeds", "3", "--out", "virtual", *SMALL, *flags)
    run_dir = f"virtual/run-{ranks:06d}-3"
    assert newest(tmp_path, run_dir)[1] == newest(tmp_path, "real")[1]
    assert deterministic(tmp_path, run_dir) == deterministic(tmp_path, "real")
    assert json.loads((tmp_path / f"virtual/ranks-{ranks:06d}-3.json").read_text())["ranks"] == ranks
    (row,), _ = read_csv(tmp_path / "virtual/virtual.csv", "virtual", 2)
    assert (row["ranks"], row["seed"]) == (ranks, 3) and row["end_s"] > 0


def test_finished_run_is_not_repeated(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    run_flags = [*CARTPOLE, "--total-timesteps", "2000"]
    flags = ["--ranks", "1", "--out", "virtual", *SMALL, *run_flags]
    assert main(flags) == 0 and "1 virtual rank into" in capfd.readouterr().err
    train_here(*run_flags)
    assert newest(tmp_path, "virtual/run-000001-0")[1] == newest(tmp_path)[1], (
        "one virtual rank differs from a real one"
    )
    path = tmp_path / "virtual/ranks-000001-0.json"
    result = path.read_bytes()
    assert main(flags) == 0 and path.read_bytes() == result
    path.unlink()
    monkeypatch.setenv("PG_MPI_COMMIT", "later")
    assert main(flags) == 0
    again, first = json.loads(path.read_text()), json.loads(result)
    assert again["end"] == first["end"] and again["commit"] == first["commit"], "the result differs from the run folder"
    assert "virtual ranks into" not in capfd.readouterr().err, "a finished run was repeated"
    assert "has other settings (network): give another --out" in refusal(main, *flags, "--network", "aries")


def test_check_compares_virtual_with_real_ranks(tmp_path):
    line = ["--ranks", 2, "--repeats", 1, "--steps-per-rank", 1500, "--out", "out", "--json", *CARTPOLE]
    done = tool("model.virtual.check", tmp_path, *line, *SMALL)
    (row,) = printed(done)["rows"]
    assert row["ranks"] == 2 and row["same_weights"] and "same_weights" in done.stdout
    assert row["real_s"] > 0 and row["virtual_s"] > 0 and row["error"] == row["virtual_s"] / row["real_s"] - 1
    assert [path.name for path in tmp_path.iterdir()] == ["out"], "the run folders were not removed"
    assert "--total-timesteps does not apply here" in refusal(check.main, "--total-timesteps", "9")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_a_run_with_a_checkpoint(tmp_path, monkeypatch, number):
    flags = ["--ranks", "2,3", "--out", "out", *SMALL, *CARTPOLE, "--target", "1e6"]
    job = start([sys.executable, "-m", "scaling.model.virtual", *flags], tmp_path)
    wait_for_updates(job, tmp_path, run="out/run-000002-0")
    job.send_signal(number)
    ended = finish(job, 30)
    assert ended.returncode == (130 if number == signal.SIGINT else 75), ended.stderr
    assert list((tmp_path / "out/run-000002-0/checkpoints").glob("step-*.npz")), "no checkpoint"
    assert not (tmp_path / "out/run-000003-0").exists(), "the next number of ranks was started"
    monkeypatch.chdir(tmp_path)
    assert "has other settings (network)" in refusal(main, *flags, "--network", "aries")


def work(seconds):
    """Use this much processor time."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def nap():
    """Sleep; returns the seconds that it took, which are more on a busy machine."""
    begun = time.perf_counter()
    time.sleep(0.1)
    return time.perf_counter() - begun


def test_clock_sums_work_waiting_and_exchange():
    """A clock has the rank's processor time, the wait for the slowest rank and the cost of the exchange."""
    seconds = [0.02, 0.06, 0.04]

    def main(world):
        begun = world.clock()
        work(seconds[world.rank])
        time.sleep(0.1)  # not processor time, as when another process has the core
        own = world.clock() - begun
        world.barrier()
        met = world.clock() - begun
        napped = world.on_root(nap)  # stands for a disk access
        array = world.sum_(np.full(3, float(world.rank + 1)))
        return (
            own,
            met,
            world.clock() - begun - napped,
            array.tolist(),
            world.any(world.rank == 2, False),
            world.gather_all(world.rank),
        )

    hub = Hub(3, cost=lambda size: 10.0 if size == 24 else 1.0)
    results = hub.run(main)
    for rank, (own, met, end, array, flags, gathered) in enumerate(results):
        assert own == pytest.approx(seconds[rank], abs=0.015)
        assert met == pytest.approx(0.06 + 1, abs=0.02) and end == pytest.approx(met + 1 + 10, abs=0.01)
        assert array == [6.0] * 3 and flags == [True, False]
        assert gathered == [0, 1, 2]


def test_ranks_on_a_shared_core_take_longer():
    def main(world):
        begun = world.clock()
        work(0.03)
        return world.clock() - begun

    alone, crowded = (Hub(2, lambda size: 0.0, crowd=crowd).run(main)[1] for crowd in (1, 3))
    assert crowded == pytest.approx(3 * alone, rel=0.3)


def test_turns_are_short_so_that_all_ranks_see_the_same_machine():
    """Ranks that read the clock take turns; one that waits for a disk keeps its turn, for which it is charged."""
    turns = []

    def main(world):
        begun = world.clock()
        for _ in range(20 * (1 + world.rank)):
            work(0.001)
            world.clock()
            turns.append(world.rank)
        used = world.clock() - begun
        world.on_root(lambda: (turns.append("saving"), work(0.01), world.clock(), turns.append("saved")))
        return used

    used = Hub(2, lambda size: 0.0).run(main)
    assert used == [pytest.approx(0.02, abs=0.01), pytest.approx(0.04, abs=0.01)]
    order = [rank for rank, after in zip(turns, turns[1:]) if rank != after]
    assert order.count(0) >= 4 and turns.count(0) == 20 and turns.count(1) == 40
    assert turns[turns.index("saving") + 1] == "saved"


def test_exception_on_one_rank_ends_all_ranks():
    def main(world):
        if world.rank == 1:
            raise ValueError("this one")
        world.barrier()

    with pytest.raises(ValueError, match="this one"):
        Hub(3, lambda size: 0.0).run(main)

    def fail_on_root(world):
        world.on_root(lambda: int("x"))

    with pytest.raises(ValueError, match="invalid literal") as caught:
        Hub(3, lambda size: 0.0).run(fail_on_root)
    assert caught.value.agreed


def result(ranks, above, at, seed=0):
    costs = [wall and {"wall_s": wall, "env_steps": 1e6} for wall in (above, at)]
    end = {"sps_total": 1000.0 * ranks, "return_mean": 18.0, "wall_s": 500.0}
    reached = {"above_0": costs[0], "at_target": costs[1], "target": 18.0}
    return {"ranks": ranks, "seed": seed, **reached, "end": end, "commit": "abc"}


def test_costs_of_each_number_of_ranks():
    rows = compare([result(4, 130, 300), result(1, 400, 1100), result(2, 220, None)])
    assert [row["ranks"] for row in rows] == [1, 2, 4]
    assert {row["commit"] for row in rows} == {"abc"} and "abc" not in table(rows)
    assert rows[1]["above_0_core_hours"] == 2 * 220 / 3600 and rows[1]["at_target_wall_s"] is None


def test_medians_over_seeds_count_a_target_not_reached_as_infinite():
    rows = compare([result(2, 220, None, seed=7), result(2, 100, 900, seed=5), result(2, 130, 300, seed=6)])
    assert [row["seed"] for row in rows] == [5, 6, 7]
    found = medians(rows)
    assert (found["ranks"], found["above_0_wall_s"], found["at_target_wall_s"]) == (2, 130, 900)
    assert medians([rows[2], rows[2], rows[0]])["at_target_wall_s"] is None
