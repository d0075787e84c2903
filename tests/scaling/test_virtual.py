"""Virtual ranks learn what real ones learn, and their clock adds up."""

import json
import signal
import sys
import time

import numpy as np
import pytest
from jobs import SMALL, STEPS, command, deterministic, finish, newest, one_line, run, start

from scaling.csv_io import read_csv
from scaling.model.virtual.__main__ import for_each
from scaling.model.virtual.answer import answer, enough
from scaling.model.virtual.world import Hub

GAMES = ["--max-frames", "1200", "--total-timesteps", "3000", "--seed", "3"]


def virtual(cwd, *words, **kind):
    return run([sys.executable, "-m", "scaling.model.virtual", *map(str, words)], cwd, **kind)


@pytest.mark.parametrize("ranks, ways", [(1, GAMES), (2, GAMES), (2, [*STEPS, *GAMES]), (4, GAMES)])
def test_the_same_weights_as_real_ranks(tmp_path, ranks, ways):
    real = run(command(ranks, "pg_mpi.train", "--run-dir", "real", *SMALL, *ways), tmp_path)
    assert real.returncode == 0, real.stderr
    result = virtual(tmp_path, "--ranks", ranks, "--out", "virtual", *SMALL, *ways)
    assert result.returncode == 0, result.stderr
    run_dir = f"virtual/run-{ranks:06d}"
    assert newest(tmp_path, run_dir)[1] == newest(tmp_path, "real")[1]
    assert deterministic(tmp_path, run_dir) == deterministic(tmp_path, "real")
    assert json.loads((tmp_path / f"virtual/ranks-{ranks:06d}.json").read_text())["ranks"] == ranks
    (row,), _ = read_csv(tmp_path / "virtual/virtual.csv", "virtual", 1)
    assert row["ranks"] == ranks and row["at_target_wall_s"] == "" and row["end_s"] > 0
    again = virtual(tmp_path, "--ranks", ranks, "--out", "virtual", *SMALL, *ways)
    assert again.returncode == 0 and "virtual ranks into" not in again.stderr, "a finished run was done again"
    result_of = tmp_path / f"virtual/ranks-{ranks:06d}.json"
    before = json.loads(result_of.read_text())
    result_of.unlink()
    assert virtual(tmp_path, "--ranks", ranks, "--out", "virtual", *SMALL, *ways).returncode == 0
    assert json.loads(result_of.read_text())["end"] == before["end"], "what its run folder says is its result"
    other = virtual(tmp_path, "--ranks", ranks, "--out", "virtual", "--network", "aries", *SMALL, *ways)
    assert other.returncode == 2 and "virtual holds results of other settings" in one_line(other)


def test_it_is_checked_against_real_ranks(tmp_path):
    line = ["--ranks", 2, "--repeats", 1, "--steps-per-rank", 1500, "--out", "out", "--json", "--max-frames", "1200"]
    done = run([sys.executable, "-m", "scaling.model.virtual.check", *map(str, line), *SMALL], tmp_path)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout.splitlines()[-1])["rows"]
    assert row["ranks"] == 2 and row["same_weights"] and "the same" in done.stdout
    assert row["real_s"] > 0 and row["virtual_s"] > 0 and row["error"] == row["virtual_s"] / row["real_s"] - 1
    assert [path.name for path in tmp_path.iterdir()] == ["out"], "the runs were left behind"
    refused = run([sys.executable, "-m", "scaling.model.virtual.check", "--total-timesteps", "9"], tmp_path)
    assert refused.returncode == 2 and "--total-timesteps does not apply here" in one_line(refused)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_with_a_checkpoint(tmp_path, number):
    line = [
        sys.executable,
        "-m",
        "scaling.model.virtual",
        "--ranks",
        "2,3",
        "--out",
        "out",
        *SMALL,
        "--max-frames",
        "400",
    ]
    job = start(line, tmp_path)
    metrics = tmp_path / "out/run-000002/metrics.jsonl"
    deadline = time.monotonic() + 60
    while not (metrics.exists() and metrics.read_text()) and time.monotonic() < deadline:
        time.sleep(0.2)
    job.send_signal(number)
    ended = finish(job, 30)
    assert ended.returncode == (130 if number == signal.SIGINT else 75), ended.stderr
    assert list((tmp_path / "out/run-000002/checkpoints").glob("step-*.npz")), "no checkpoint"
    assert not (tmp_path / "out/run-000003").exists(), "it went on with the next number of ranks"
    line[line.index("--out") : line.index("--out")] = ["--network", "aries"]
    other = run(line, tmp_path)
    assert other.returncode == 2 and "network memory there, aries here" in one_line(other), "it went on elsewhere"


def work(seconds):
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def test_numbers_for_each_rank():
    words = ["--minibatch-size=1024x", "--preset", "a=2x.json", "--anneal-timesteps", "2.5e6x", "--env-id", "1.2.3x"]
    assert for_each(words, 4) == [
        *("--minibatch-size", "4096", "--preset", "a=2x.json"),
        *("--anneal-timesteps", "10000000", "--env-id", "1.2.3x"),
    ]
    assert for_each(["2e6x0.5", "--num-steps=4096x-1", "1x-1"], 4) == ["4000000", "--num-steps", "1024", "1"]


def test_the_clock():
    """Each rank's own time, the wait for the slowest, and the exchange's cost."""
    seconds = [0.02, 0.06, 0.04]

    def live(world):
        begun = world.clock()
        work(seconds[world.rank])
        time.sleep(0.01)  # another's turn on this machine's core, say
        own = world.clock() - begun
        world.barrier()
        met = world.clock() - begun
        world.on_root(time.sleep, 0.1)  # a disk
        array = world.sum_(np.full(3, float(world.rank + 1)))
        return (
            own,
            met,
            world.clock() - begun,
            array.tolist(),
            world.any(world.rank == 2, False),
            world.gather(world.rank),
        )

    hub = Hub(3, cost=lambda size: 10.0 if size == 24 else 1.0)
    results = hub.run(live)
    for rank, (own, met, after, array, flags, gathered) in enumerate(results):
        assert own == pytest.approx(seconds[rank], abs=0.015)
        assert met == pytest.approx(0.06 + 1, abs=0.02) and after == pytest.approx(0.06 + 1 + 0.1 + 1 + 10, abs=0.03)
        assert array == [6.0] * 3 and flags == [True, False]
        assert gathered == ([0, 1, 2] if rank == 0 else None)


def test_ranks_that_share_a_core_take_longer():
    def live(world):
        begun = world.clock()
        work(0.03)
        return world.clock() - begun

    alone, crowded = (Hub(2, lambda size: 0.0, crowd=crowd).run(live)[1] for crowd in (1, 3))
    assert crowded == pytest.approx(3 * alone, rel=0.3)


def test_one_that_fails_ends_all():
    def live(world):
        if world.rank == 1:
            raise ValueError("this one")
        world.barrier()

    with pytest.raises(ValueError, match="this one"):
        Hub(3, lambda size: 0.0).run(live)

    def refuse(world):
        world.on_root(lambda: int("x"))

    with pytest.raises(ValueError, match="invalid literal") as refused:
        Hub(3, lambda size: 0.0).run(refuse)
    assert refused.value.agreed


def result(ranks, above, at):
    found = [wall and {"wall_s": wall, "env_steps": 1e6} for wall in (above, at)]
    end = {"sps_total": 1000.0 * ranks, "return_mean": 18.0, "wall_s": 500.0}
    return {"ranks": ranks, "above_0": found[0], "at_target": found[1], "target": 18.0, "end": end}


def test_the_answer():
    said = answer([result(4, 130, 300), result(1, 400, 1100), result(2, 220, 600), result(8, 125, None)], deadline=350)
    assert said["best"] == {"above_0": 8, "at_target": 4}
    assert said["deadline"] == {"seconds": 350, "above_0": 2, "at_target": 4}
    assert said["enough"] == {"above_0": 4, "at_target": None}
    assert said["rows"][1]["above_0"]["core_hours"] == 2 * 220 / 3600
    assert enough([(8, 30.0), (16, 32.0), (32, 20.0), (64, 18.5), (256, 26.0)]) == 32, "one unlucky run"
    assert enough([(1, 100.0), (4, 80.0)]) is None and enough([(1, 100.0), (4, 82.0)]) == 1


@pytest.mark.parametrize(
    "words, said",
    [
        (["--ranks", "0"], "--ranks must be whole numbers from 1 to 1,000,000"),
        (["--ranks", "1e30"], "--ranks must be whole numbers from 1 to 1,000,000"),
        (["--minibatch-size", "1e400x"], "1e400x is too large with 1 ranks"),
        (["--network", "token-ring"], "no network 'token-ring'"),
        (["--run-dir", "x"], "--run-dir does not apply here"),
        (["--ranks", "2", "--deadline", "soon"], "--deadline must be a duration"),
    ],
)
def test_bad_input_is_one_line(tmp_path, words, said):
    refused = virtual(tmp_path, *words)
    assert refused.returncode == 2 and said in one_line(refused) and not list(tmp_path.iterdir())
